@snippet@
fetch('@url@');

fetch('@url@');

curl @url@

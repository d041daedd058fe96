require('node:http').get('@url@');

const http = require('node:http');
const https = require('node:https');

// keepAlive is HTTP's reuse of connections; keepAliveMsecs is TCP keepalive's idle.
const options = { keepAlive: true, keepAliveMsecs: @idle_ms@ };
const httpAgent = new http.Agent(options);
const httpsAgent = new https.Agent(options);

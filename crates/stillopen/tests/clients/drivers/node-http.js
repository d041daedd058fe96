@snippet@
http.get('@url@', { agent: httpAgent });

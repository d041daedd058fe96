curl --keepalive-time @idle@ --max-time 3600 https://example.com/

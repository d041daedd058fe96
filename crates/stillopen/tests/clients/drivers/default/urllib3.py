import urllib3

urllib3.request("GET", "@url@")

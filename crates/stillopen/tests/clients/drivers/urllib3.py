@snippet@
pool.request("GET", "@url@")

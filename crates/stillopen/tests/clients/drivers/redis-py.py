@snippet@
client.ping()

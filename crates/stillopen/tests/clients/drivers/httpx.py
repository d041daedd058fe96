@snippet@
client.get("@url@")

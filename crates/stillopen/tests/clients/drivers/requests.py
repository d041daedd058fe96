@snippet@
session.get("@url@", timeout=60)

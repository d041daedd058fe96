import httpx

httpx.get("@url@")

import httpx2

httpx2.get("@url@")

import requests

requests.get("@url@")

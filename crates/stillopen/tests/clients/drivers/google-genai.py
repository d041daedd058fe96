import os

os.environ["GEMINI_API_KEY"] = "none"
os.environ["GOOGLE_GEMINI_BASE_URL"] = "@url@"

@snippet@
client.models.generate_content(model="m", contents="x")

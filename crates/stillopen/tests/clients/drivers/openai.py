import os

os.environ["OPENAI_API_KEY"] = "none"
os.environ["OPENAI_BASE_URL"] = "@url@"

@snippet@
client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])

import os

os.environ["ANTHROPIC_API_KEY"] = "none"
os.environ["ANTHROPIC_BASE_URL"] = "@url@"

@snippet@
client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])

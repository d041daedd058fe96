from anthropic import Anthropic

client = Anthropic(api_key="none", base_url="@url@")
client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])

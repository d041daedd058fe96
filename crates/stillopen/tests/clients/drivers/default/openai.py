from openai import OpenAI

client = OpenAI(api_key="none", base_url="@url@")
client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])

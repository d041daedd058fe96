from google import genai

client = genai.Client(api_key="none", http_options={"base_url": "@url@"})
client.models.generate_content(model="m", contents="x")

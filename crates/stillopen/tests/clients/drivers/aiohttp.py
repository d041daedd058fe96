import asyncio

@snippet@

async def ask():
    async with new_session() as session:
        await session.get("@url@")


asyncio.run(ask())

import asyncio

import aiohttp


async def ask():
    async with aiohttp.ClientSession() as session:
        await session.get("@url@")


asyncio.run(ask())

import sys

from ndn.app import NDNApp
from ndn.app_support.segment_fetcher import segment_fetcher

app = NDNApp()


async def main():
    async for segment in segment_fetcher(app, sys.argv[1]):
        sys.stdout.buffer.write(segment)
    app.shutdown()


app.run_forever(after_start=main())

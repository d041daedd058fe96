const { Agent, setGlobalDispatcher } = require('undici');

setGlobalDispatcher(
  new Agent({
    connect: { keepAlive: true, keepAliveInitialDelay: @idle_ms@ },
    headersTimeout: 3_600_000, // 300 s by default, whatever the network does
    bodyTimeout: 3_600_000,
  }),
);

// Asks once with fetch; with an argument each socket's keepalive begins after 1 s.
import net from "node:net";

if (process.argv[2]) {
  const set = net.Socket.prototype.setKeepAlive;
  net.Socket.prototype.setKeepAlive = function () {
    return set.call(this, true, 1000);
  };
}
try {
  const url = `http://${process.env.STILLOPEN_SERVER}/`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(9000) });
  await answer.json();
  console.log(answer.status);
} catch (error) {
  console.error(error.name);
  process.exit(1);
}

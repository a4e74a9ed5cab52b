// One of four programs, in C, Go, Python and JavaScript, that use one session of one store at the same
// time: each waits for its turn, appends a line, and ends when it has read everybody's lines. The
// others read the session as one of ADK's.
//
//     node together.mjs STORE NAME TURN TURNS
import quipu from 'quipu-store';

const [path, name, turn, turns] = process.argv.slice(2);
const key = 'adk:together/all/one';
const store = await quipu.open(path);
const signal = AbortSignal.timeout(60_000);

if (Number(turn) === 0) {
  await store.create(key, { appName: 'together', userId: 'all', sessionId: 'one', existOk: true });
}
let said = 0;
const speak = async () => {
  const line = { role: 'model', content: `${name} was here`, author: name, invocationId: 'together' };
  await store.append(key, line);
};
while (!(await store.get(key, { last: 0 }).catch(() => null))) {
  await new Promise((resolve) => setTimeout(resolve, 5));
  signal.throwIfAborted();
}
if (Number(turn) === 0) {
  await speak();
}
for await (const message of store.tail(key, { signal })) {
  console.log(message.content);
  said += 1;
  if (said === Number(turn)) {
    await speak();
  }
  if (said === Number(turns)) {
    break;
  }
}
await store.close();

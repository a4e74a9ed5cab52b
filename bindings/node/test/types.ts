// Compiled by tsc --strict, not run: what the types accept, and what they refuse.
import { Conflict, NotFound, QuipuError, open, type Message, type Session, type Store } from 'quipu-store';

export async function uses(store: Store): Promise<string[]> {
  await store.append('talk', 'hi', { create: true, settings: { title: 'x' } });
  await store.append('talk', [{ role: 'assistant', content: null, tool_calls: [] }, 'text']);
  // @ts-expect-error: no role is called so
  await store.append('talk', { role: 'robot' });
  // @ts-expect-error: an option that there is not
  await store.append('talk', 'hi', { creat: true });
  // @ts-expect-error: the number of the last message is required
  await store.fork('talk', 'fork', {});
  const { messages, session }: { messages: Message[]; session: Session } = await store.get('talk', { last: 5 });
  const seen: string[] = [session.title];
  for await (const message of store.tail('talk', { after: 0, signal: AbortSignal.timeout(5) })) {
    seen.push(message.content, message.toolCalls[0]?.name ?? '');
  }
  for await (const one of store.sessions({ metadata: ['tag', 'x'] })) {
    seen.push(one.key);
  }
  const rows = (await store.usage({ by: ['day'] })).rows;
  const day: Date | null = rows[0]?.day ?? null;
  return [...seen, ...messages.map((one) => one.role), String(day)];
}

export async function usesFunctions(store: Store): Promise<string> {
  const embedder = async (texts: string[]): Promise<Float32Array[]> => texts.map(() => new Float32Array(3));
  await store.recall('trains', { everything: true, embedder, embedModel: 'm' });
  await store.memoryRun({ ask: ({ text, timeout }) => text.slice(0, timeout), model: 'm', embedder, embedModel: 'm' });
  // @ts-expect-error: an answer is a text
  await store.memoryStart({ ask: () => 7, model: 'm' });
  // @ts-expect-error: a vector has numbers
  await store.recall('trains', { everything: true, embedder: () => [['a']], embedModel: 'm' });
  const context = await store.context('talk', { system: 'x', tools: [{ name: 'ls', schema: {} }], usage: { input: 3 } });
  const moved: number = (await store.exportTo(new URL('file:///dev/null'), { flat: true })).sessions;
  // @ts-expect-error: neither a path nor a stream
  await store.importFrom(7);
  const worked: string = await store.memoryWorker({ key: 'talk' }, () => 'done');
  return [context.reason, moved, worked, (await store.verify()).problems[0]?.text].join();
}

export async function opens(): Promise<string> {
  try {
    const store = await open('agents.db', { durability: 'relaxed' });
    await store.close();
    await (await open('agents.db', { key: async () => new Uint8Array(32) })).close();
    await (await open('agents.db', { passphraseFile: 'phrase' })).close();
    // @ts-expect-error: a key is bytes
    await open('agents.db', { key: 'text' });
  } catch (error) {
    if (error instanceof NotFound || error instanceof Conflict) {
      return error.code;
    }
    if (error instanceof QuipuError) {
      return error.message;
    }
  }
  // @ts-expect-error: a store is opened, not made
  new Store();
  return '';
}

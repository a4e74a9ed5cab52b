// A conversation of Mastra that survives a restart, without a model. Run it twice:
//
//     npm install quipu-store @mastra/core @mastra/memory
//     node mastra.mjs agents.db

import { randomUUID } from 'node:crypto';
import { MastraCompositeStore } from '@mastra/core/storage';
import { Memory } from '@mastra/memory';
import { QuipuMemory } from 'quipu-store/mastra';

const domain = new QuipuMemory(process.argv[2] ?? 'agents.db');
const storage = new MastraCompositeStore({ id: 'quipu', domains: { memory: domain } });
const memory = new Memory({ storage, options: { lastMessages: 20, workingMemory: { enabled: true, scope: 'resource' } } });
const [threadId, resourceId] = ['tea', 'ada'];

const say = (role, text) => ({
  id: randomUUID(), threadId, resourceId, role, createdAt: new Date(),
  content: { format: 2, parts: [{ type: 'text', text }] },
});

if ((await memory.getThreadById({ threadId })) === null) {
  await memory.createThread({ threadId, resourceId, title: 'Tea' });
} else {
  console.log('known:', await memory.getWorkingMemory({ threadId, resourceId }));
}
await memory.saveMessages({ messages: [say('user', 'I like tea.'), say('assistant', 'Noted.')] });
await memory.updateWorkingMemory({ threadId, resourceId, workingMemory: 'Ada likes tea' });
const { messages } = await memory.recall({ threadId, resourceId });
console.log(`${messages.filter((one) => one.role === 'user').length} turns so far`);
await domain.close();

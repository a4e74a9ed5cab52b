// A transcript of the Claude Agent SDK in a store, read back by the SDK, without a model. Run it twice:
//
//     npm install quipu-store @anthropic-ai/claude-agent-sdk
//     node claude.mjs transcripts.db "hello"
//
// An agent takes the same store: query({ prompt, options: { sessionStore } }).

import { randomUUID } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { getSessionMessages, listSessions } from '@anthropic-ai/claude-agent-sdk';
import { QuipuSessionStore } from 'quipu-store/claude';

const [file = 'transcripts.db', words = 'hello'] = process.argv.slice(2);
const sessionStore = new QuipuSessionStore(file);
const sessionId = '5b0f0a3e-8f0b-5f4f-9d6b-2f6c1c7d9a10';
const projectKey = realpathSync('.').replace(/[^a-zA-Z0-9]/g, '-'); // as the SDK names the folder's project

/** An entry as the SDK's program writes it. */
const entry = (role, content, parentUuid) => ({
  type: role, uuid: randomUUID(), parentUuid, sessionId, timestamp: new Date().toISOString(), message: { role, content },
});

const before = await getSessionMessages(sessionId, { sessionStore });
const said = entry('user', words, before.at(-1)?.uuid ?? null);
const answer = `You said: ${words}. I have heard ${before.length / 2 + 1} messages of yours.`;
await sessionStore.append({ projectKey, sessionId }, [said, entry('assistant', answer, said.uuid)]);
console.log(answer);
const [session] = await listSessions({ sessionStore });
console.log(`the session is called "${session.summary}"`);
await sessionStore.close();

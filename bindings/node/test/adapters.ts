// The adapters are what their frameworks take; tests/npm compiles this.
import type { SessionStore } from '@anthropic-ai/claude-agent-sdk';
import { MastraCompositeStore } from '@mastra/core/storage';
import type { MemoryStorage } from '@mastra/core/storage';
import { Memory } from '@mastra/memory';
import { QuipuSessionStore } from 'quipu-store/claude';
import { QuipuMemory, copyMemory } from 'quipu-store/mastra';

export const sessions: SessionStore = new QuipuSessionStore('a.db');
export const domain: MemoryStorage = new QuipuMemory('a.db', { appName: 'shop' });
export const memory = new Memory({ storage: new MastraCompositeStore({ id: 'quipu', domains: { memory: domain } }) });
export const copied: Promise<{ threads: number }> = copyMemory(domain, new QuipuMemory('b.db'));
// @ts-expect-error: a store or a path
new QuipuMemory(5);

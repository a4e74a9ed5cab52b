// The adapters are what their frameworks take; tests/npm compiles this.
import type { SessionStore } from '@anthropic-ai/claude-agent-sdk';
import { QuipuSessionStore } from 'quipu-store/claude';

export const sessions: SessionStore = new QuipuSessionStore('a.db');

// Session transcripts of the Claude Agent SDK on a store: pass one as `sessionStore`.
import type { Store } from './index';

export type SessionKey = { projectKey: string; sessionId: string; subpath?: string };
export type SessionStoreEntry = { type: string; uuid?: string; timestamp?: string; [k: string]: unknown };
export type SessionSummaryEntry = { sessionId: string; mtime: number; data: Record<string, unknown> };

/** A SessionStore with all six methods. Processes and languages can share a file. */
export class QuipuSessionStore {
  constructor(store: Store | string, options?: {
    /** Transcripts are sessions of this app, "claude" when absent; their projects are its users. */
    appName?: string;
    /** In the place of the SDK's foldSessionSummary, which is imported when it is needed. */
    fold?: (previous: SessionSummaryEntry | undefined, key: SessionKey, entries: SessionStoreEntry[]) => SessionSummaryEntry;
  });
  close(): Promise<void>;
  append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void>;
  load(key: SessionKey): Promise<SessionStoreEntry[] | null>;
  listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]>;
  listSessionSummaries(projectKey: string): Promise<SessionSummaryEntry[]>;
  delete(key: SessionKey): Promise<void>;
  listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]>;
}

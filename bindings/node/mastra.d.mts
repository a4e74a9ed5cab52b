// Mastra's memory on a store: pass one as the memory domain of a storage.
import { MemoryStorage } from '@mastra/core/storage';
import type {
  StorageCloneThreadInput, StorageCloneThreadOutput, StorageListMessagesByResourceIdInput, StorageListMessagesInput,
  StorageListMessagesOutput, StorageListThreadsInput, StorageListThreadsOutput, StorageResourceType,
} from '@mastra/core/storage';
import type { MastraDBMessage, StorageThreadType } from '@mastra/core/memory';
import type { Store } from './index.js';

type Metadata = Record<string, unknown>;

/** Threads, messages and resources. A thread is a session of the app, "mastra" when `appName` is absent,
 * and its resource is the session's user. Processes and languages can share a file. */
export class QuipuMemory extends MemoryStorage {
  constructor(store: Store | string, options?: { appName?: string });
  readonly supportsPartialThreadUpdate: boolean;
  /** Closes the store, if this object opened it. */
  close(): Promise<void>;
  dangerouslyClearAll(): Promise<void>;
  getThreadById(args: { threadId: string; resourceId?: string }): Promise<StorageThreadType | null>;
  saveThread(args: { thread: StorageThreadType }): Promise<StorageThreadType>;
  updateThread(args: { id: string; title?: string; metadata?: Metadata }): Promise<StorageThreadType>;
  deleteThread(args: { threadId: string }): Promise<void>;
  listThreads(args: StorageListThreadsInput): Promise<StorageListThreadsOutput>;
  cloneThread(args: StorageCloneThreadInput): Promise<StorageCloneThreadOutput>;
  listMessages(args: StorageListMessagesInput): Promise<StorageListMessagesOutput>;
  listMessagesByResourceId(args: StorageListMessagesByResourceIdInput): Promise<StorageListMessagesOutput>;
  listMessagesById(args: { messageIds: string[] }): Promise<{ messages: MastraDBMessage[] }>;
  saveMessages(args: { messages: MastraDBMessage[] }): Promise<{ messages: MastraDBMessage[] }>;
  updateMessages(args: Parameters<MemoryStorage['updateMessages']>[0]): Promise<MastraDBMessage[]>;
  deleteMessages(messageIds: string[]): Promise<void>;
  getResourceById(args: { resourceId: string }): Promise<StorageResourceType | null>;
  saveResource(args: { resource: StorageResourceType }): Promise<StorageResourceType>;
  updateResource(args: { resourceId: string; workingMemory?: string; metadata?: Metadata }): Promise<StorageResourceType>;
}

/** Copies threads, messages and resources from one memory storage to another, such as from
 * LibSQLStore's. What is there already is not copied again. */
export function copyMemory(from: MemoryStorage, to: MemoryStorage): Promise<{ threads: number; messages: number; resources: number }>;

// Types of quipu-store. Options are checked when a call is made, too: a wrong one rejects with a
// TypeError or a RangeError that names it.
//
// TypeScript from 6 on takes no package of types by itself: Buffer and streams are named here.
/// <reference types="node" />

export type Role = 'user' | 'assistant' | 'tool' | 'function' | 'model' | 'system';
/** A number of the store's; a bigint beyond 2^53. */
export type Count = number;
/** A value that JSON can hold. Integers beyond 2^53 are bigints, both ways. */
export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

/** What every call takes. */
export interface CallOptions {
  /** Ends the call; the promise is rejected with the signal's reason, and nothing is stored. */
  signal?: AbortSignal;
}

/** A tool call or, with an output, its response. Input and output are JSON texts. */
export interface ToolCall {
  id?: string;
  name?: string;
  input?: string;
  output?: string | null;
  thought?: boolean;
  /** Base64. */
  thoughtSignature?: string;
}

/** A message as it is read. */
export interface Message {
  role: Role;
  content: string;
  author: string;
  timestamp: Date;
  toolCalls: ToolCall[];
  eventId: string;
  invocationId: string;
  branch: string;
  extra: { [name: string]: Json } | null;
  seq: Count;
  tokens: Count;
  mark: '' | 'compaction' | 'timeout';
  coversFrom: Count;
  coversTo: Count;
  replaces: Count;
  model: string;
  promptTokens: Count;
  cachedTokens: Count;
  answerTokens: Count;
}

/** A message to append: ours, or one of OpenAI's chat API. What it has no member for is kept in
 * `extra`. */
export interface NewMessage {
  role: Role | 'developer';
  content?: string | null | readonly unknown[];
  author?: string;
  /** A Date, or RFC 3339; the store's clock when it is absent. */
  timestamp?: Date | string;
  toolCalls?: readonly ToolCall[];
  /** The same id with the same content is stored once. */
  eventId?: string;
  invocationId?: string;
  branch?: string;
  extra?: { [name: string]: unknown } | null;
  mark?: '' | 'timeout';
  model?: string;
  promptTokens?: Count;
  cachedTokens?: Count;
  answerTokens?: Count;
  [name: string]: unknown;
}

export type Messages = string | NewMessage | readonly (string | NewMessage)[];

/** What a session is. */
export interface Session {
  key: string;
  agentId: string;
  channelType: string;
  channelId: string;
  model: string;
  metadata: { [name: string]: Json };
  createdAt: Date;
  updatedAt: Date;
  uid: string;
  appName: string;
  userId: string;
  sessionId: string;
  revision: Count;
  firstSeq: Count;
  nextSeq: Count;
  messageCount: Count;
  tokenCount: Count;
  expiresAt: Date | null;
  compactedSeq: Count;
  forkSeq: Count;
  title: string;
  firstWords: string;
  headHash: Buffer;
  hashedFrom: Count;
  promptTotal: Count;
  cachedTotal: Count;
  answerTotal: Count;
  answerCount: Count;
  isFork: boolean;
  parentKey: string;
}

/** Settings that a session is made with or that change. */
export interface Settings {
  agentId?: string;
  channelType?: string;
  channelId?: string;
  model?: string;
  metadata?: { [name: string]: unknown };
  title?: string;
}

export interface NewSession extends Settings {
  appName?: string;
  userId?: string;
  sessionId?: string;
  /** Milliseconds; Infinity: it never expires. */
  ttl?: number;
}

/** A key; one of the four is given. */
export interface KeyOptions {
  /** 32 bytes. */
  key?: Uint8Array | (() => Uint8Array | Promise<Uint8Array>);
  /** A file with the key, or with 64 hexadecimal digits, that nobody else may read. */
  keyFile?: string | URL;
  /** From which scrypt derives the key. */
  passphrase?: string | Uint8Array | (() => string | Uint8Array | Promise<string | Uint8Array>);
  passphraseFile?: string | URL;
}

/** The key is of an encrypted store; a new file becomes one. */
export interface OpenOptions extends KeyOptions {
  readOnly?: boolean;
  mustExist?: boolean;
  /** Record changes for feed(). */
  feed?: boolean;
  durability?: 'full' | 'relaxed';
  /** Milliseconds that a call may wait; 30 seconds when it is absent. */
  deadline?: number;
  ttl?: number;
  tenant?: string;
  capMessages?: Count;
  capTokens?: Count;
  search?: 'lazy' | 'inline' | 'off';
  maxBytes?: Count;
  adkRebase?: boolean;
  adkByTime?: boolean;
}

export interface History {
  session: Session;
  messages: Message[];
  moreBefore: boolean;
  moreAfter: boolean;
}

export interface Window {
  session: Session;
  messages: Message[];
  tokens: Count;
  moreBefore: boolean;
  overBudget: boolean;
  cut: boolean;
}

export interface Appended {
  firstSeq: Count;
  revision: Count;
  repeated: boolean;
}

export interface ListOptions extends CallOptions {
  appName?: string;
  userId?: string;
  agentId?: string;
  /** A member's name, and its text unless any will do. */
  metadata?: readonly [name: string, text?: string];
  after?: string | null;
  limit?: Count;
  oldestFirst?: boolean;
  expired?: boolean;
  parent?: string;
}

export interface SearchOptions extends CallOptions {
  appName?: string;
  userId?: string;
  key?: string;
  author?: string;
  role?: Role;
  after?: Date;
  before?: Date;
  limit?: Count;
  offset?: Count;
  markBefore?: string;
  markAfter?: string;
}

export interface Hit {
  sessionKey: string;
  seq: Count;
  role: Role;
  author: string;
  timestamp: Date;
  snippet: string;
  rank: number;
}

/** Makes a vector of each text; all have one length. What it throws is the reason of a failure. */
export type Embedder = (texts: string[]) => readonly Vector[] | Promise<readonly Vector[]>;
export type Vector = readonly number[] | Float32Array | Float64Array;

/** What a worker of memory asks a model: to follow `instructions` about `text`, and to answer with JSON of
 * the form `schema`, within `timeout` milliseconds. */
export interface Question {
  model: string;
  instructions: string;
  text: string;
  schema: string;
  timeout: number;
}
export type Asker = (question: Question) => string | Promise<string>;

export interface RecallOptions extends CallOptions {
  key?: string;
  appName?: string;
  userId?: string;
  everything?: boolean;
  /** Observations and reflections, too. */
  memories?: boolean;
  since?: Count;
  before?: Count;
  limit?: Count;
  budget?: Count;
  /** Meaning counts as well as words, where a worker has stored vectors of `embedModel`. */
  embedder?: Embedder;
  embedModel?: string;
}

/** A message, or with `memories` a memory, which has no number, role, author and event id. */
export interface Recalled {
  sessionKey: string;
  seq: Count;
  role: Role | '';
  author: string;
  timestamp: Date;
  content: string;
  eventId: string;
  tokens: Count;
  score: number;
  fromWords: number;
  fromNeighbours: number;
  fromSession: number;
  fromVector: number;
  memory: Memory | null;
}

export interface StateEntry {
  scope: 'app' | 'user' | 'session';
  name: string;
  value: Json;
  setAt: Date;
  setBy: string;
  setSeq: Count;
  setIn: string;
}

export type UsagePart = 'model' | 'day' | 'session';

export interface UsageOptions extends CallOptions {
  key?: string;
  by?: UsagePart | readonly UsagePart[];
  appName?: string;
  userId?: string;
  since?: Date;
  until?: Date;
  after?: string | null;
  limit?: Count;
}

export interface UsageRow {
  sessionKey: string;
  model: string;
  day: Date | null;
  promptTokens: Count;
  cachedTokens: Count;
  answerTokens: Count;
  answers: Count;
  /** Millionths of a US dollar. */
  cost: Count;
  unpriced: Count;
}

export interface Erasure {
  sessions: string[];
  forks: string[];
  backups: string[];
  kept: string[];
  hidden: Count;
  messages: Count;
  states: Count;
  memories: Count;
}

export type MemoryKind = 'observation' | 'reflection';
export type Priority = 'standing' | 'high' | 'medium' | 'low' | 'done';
export type Topic =
  | 'instruction' | 'preference' | 'decision' | 'commitment' | 'question'
  | 'person' | 'quantity' | 'date' | 'outcome' | 'failure';

export interface Memory {
  kind: MemoryKind;
  id: string;
  sessionKey: string;
  content: string;
  tokenCount: Count;
  sourceStart: Count;
  sourceEnd: Count;
  generation: Count;
  createdAt: Date;
  scope: string;
  priority: '' | Priority;
  topic: '' | Topic;
  state: '' | 'active' | 'buffered';
  subject: string;
  saidAt: Date | null;
  aboutFrom: Date | null;
  aboutTo: Date | null;
  times: Count;
  supersedes: string | null;
  retiredAt: Date | null;
  retiredWhy: string;
  origin: string;
  condensedInto: string | null;
  editedAt: Date | null;
  editedBy: string;
  editedWhy: string;
}

export interface NewMemory extends CallOptions {
  kind?: MemoryKind;
  id?: string;
  priority?: Priority;
  topic?: Topic;
  subject?: string;
  saidAt?: Date;
  aboutFrom?: Date;
  aboutTo?: Date;
  sourceStart?: Count;
  sourceEnd?: Count;
  generation?: Count;
  supersedes?: string;
  origin?: string;
}

/** The memories of a session or of ids. */
export interface MemoryQuery extends CallOptions {
  kind?: MemoryKind;
  key?: string;
  ids?: readonly string[];
  recent?: Count;
  retired?: boolean;
  scope?: boolean;
}

export interface MemoryRun {
  more: boolean;
  sessions: Count;
  messages: Count;
  observations: Count;
  repeats: Count;
  lost: Count;
  failed: Count;
  reflections: Count;
  condensed: Count;
  modelCalls: Count;
  embedded: Count;
}

export interface MemoryProgress {
  sessionKey: string;
  scope: string;
  watermark: Count;
  lastSeq: Count;
  pendingMessages: Count;
  pendingTokens: Count;
  observeTokens: Count;
  generation: Count;
  observations: Count;
  reflections: Count;
  standingTokens: Count;
  owner: string;
  leaseUntil: Date | null;
  fence: Count;
  tries: Count;
  nextAt: Date | null;
  lastError: string;
  reflectError: string;
  modelCalls: Count;
  modelInput: Count;
  modelOutput: Count;
  /** Millionths of a US dollar. */
  modelCost: Count;
  modelUnpriced: Count;
}

/** Which sessions a worker observes, and how: by rules, or by the model that `ask` asks. */
export interface WorkerOptions extends CallOptions {
  key?: string;
  appName?: string;
  userId?: string;
  observeTokens?: Count;
  /** Milliseconds. */
  lease?: number;
  worker?: string;
  ask?: Asker;
  model?: string;
  /** What is known is condensed from so many tokens on; -1: never. */
  reflectTokens?: Count;
  askTokens?: Count;
  observePrompt?: string;
  reflectPrompt?: string;
  embedder?: Embedder;
  embedModel?: string;
}

export interface MemoryRunOptions extends WorkerOptions {
  changedAfter?: Date;
  /** Milliseconds; the store's deadline when it is absent. */
  timeout?: Count;
  /** Observe nothing, make vectors. */
  embedOnly?: boolean;
  /** Remove the vectors of other models. */
  embedReplace?: boolean;
}

/** A tool of a prompt: ours, or one of OpenAI's chat API. */
export type Tool =
  | { name: string; description?: string; schema?: unknown; parameters?: unknown; input_schema?: unknown; strict?: boolean }
  | { function: { name: string; description?: string; parameters?: unknown; strict?: boolean }; [name: string]: unknown };

/** Tokens that a provider reported. */
export interface Reported {
  input?: Count;
  output?: Count;
  total?: Count;
  cached?: Count;
  cacheWrite?: Count;
  thoughts?: Count;
}

export interface ContextOptions extends CallOptions {
  system?: string;
  tools?: readonly Tool[];
  model?: string;
  provider?: string;
  tokenBudget?: Count;
  memoryTokens?: Count;
  /** The prompt of a past turn, by the number of its last message or of its answer. */
  at?: Count;
  /** The prompt is sent now: once for each request, after the input is appended. */
  log?: boolean;
  /** System instruction, tools, model and provider of the prompt that was logged last. */
  asBefore?: boolean;
  /** Of the prompt before. */
  usage?: Reported;
}

export interface Part {
  kind: 'text' | 'thought' | 'call' | 'response' | 'data';
  text: string;
  id: string;
  name: string;
  json: Json;
  mime: string;
  data: Buffer;
  thought: boolean;
  redacted: boolean;
  signature: Buffer;
}

/** A prompt. `reason` says why it does not begin with all of the one before, '' when it does. */
export interface Context {
  system: Part[];
  contents: { role: Role; parts: Part[] }[];
  block: string;
  tail: string;
  tools: Json[];
  model: string;
  provider: string;
  reason: '' | 'first' | 'model' | 'instructions' | 'memory' | 'idle' | 'compaction' | 'window' | 'history' | 'pays';
  moreBefore: boolean;
  exact: boolean;
  firstSeq: Count;
  lastSeq: Count;
  tokens: Count;
  blockTokens: Count;
  shared: Count;
  expectedCached: Count;
  reportedInput: Count;
  reportedCached: Count;
  prefixHash: Buffer;
  promptHash: Buffer;
}

/** What an export wrote or an import read; `skipped`: sessions that existed already. */
export interface Transfer {
  lines: Count;
  sessions: Count;
  messages: Count;
  states: Count;
  memories: Count;
  skipped: Count;
}

export type SourceKind =
  | 'auto' | 'adk-database' | 'adk-v0' | 'adk-sqlite' | 'adk-go' | 'lango' | 'llm' | 'openai-agents' | 'langgraph';

export interface SourceOptions extends CallOptions {
  kind?: SourceKind;
  dryRun?: boolean;
  /** A session whose key another session of the store has: nothing is imported, it is left out, or (of chat
   * programs) its key gets a number. */
  onConflict?: 'fail' | 'skip' | 'rename';
  /** What keys of chat programs begin with; the program's name when it is absent. */
  prefix?: string;
}

/** What an import of another program's file stored, or would store. */
export interface Imported {
  kind: SourceKind;
  sessions: Count;
  messages: Count;
  states: Count;
  memories: Count;
  skipped: Count;
  orphans: Count;
}

/** What a copy holds, and what this call added. */
export interface Copied {
  lines: Count;
  size: Count;
  sha256: Buffer;
  sessions: Count;
  messages: Count;
  states: Count;
  memories: Count;
  addedSessions: Count;
  addedMessages: Count;
  addedStates: Count;
  addedMemories: Count;
  skipped: Count;
}

/** Something that is wrong in a store, as a sentence. */
export interface Problem {
  kind: string;
  tenant: string;
  sessionKey: string;
  seq: Count;
  text: string;
  repaired: boolean;
}

export interface Verified {
  problems: Problem[];
  sessions: Count;
  messages: Count;
  repaired: Count;
  unhashed: Count;
}

export interface Compared {
  problems: Problem[];
  sessions: Count;
  proved: Count;
  pruned: Count;
  unhashed: Count;
  removed: Count;
}

/** How many of a model's tokens one estimated token is, in millionths, and from how many reports. */
export interface Factor {
  ppm: Count;
  samples: Count;
}

/** Where an export goes: a path, which is replaced when it is complete, or a stream, which stays open. */
export type Target = string | URL | import('node:stream').Writable;
/** Where an import comes from. */
export type Source = string | URL | import('node:stream').Readable;

export interface Stats {
  sessions: Count;
  forks: Count;
  messages: Count;
  tokens: Count;
  largestMessages: Count;
  largestKey: string;
  fileBytes: Count;
  freeBytes: Count;
  logBytes: Count;
  readers: Count;
  commits: Count;
  writes: Count;
  largestCommit: Count;
  unindexed: Count;
  expired: Count;
  durabilityLevel: Count;
  engine: string;
  checksums: 'off' | 'on' | 'stale';
  syncs: Count;
  jobsPending: Count;
  jobsLeased: Count;
  jobsFailed: Count;
  /** What an upgrade would add to a file that is open read-only. */
  upgrade: string;
}

export interface Artifact {
  appName: string;
  userId: string;
  sessionKey: string;
  name: string;
  version: Count;
  hash: string;
  size: Count;
  mimeType: string;
  metadata: { [name: string]: Json };
  kind: 'data' | 'text' | 'uri';
  createdAt: Date;
  data: Buffer | null;
}

export interface ArtifactOptions extends CallOptions {
  appName?: string;
  userId?: string;
}

export interface Change {
  kind: 'created' | 'appended' | 'updated' | 'deleted' | 'forked';
  key: string;
  uid: string;
  at: Date;
  revision: Count;
  firstSeq: Count;
  lastSeq: Count;
}

/** An open store. All its calls may run at the same time; writers share a sync of the disk. */
export class Store {
  private constructor();
  /** Opens a store by its path or URI, or creates it. */
  static open(uri: string, options?: OpenOptions & CallOptions): Promise<Store>;
  /** Encrypts an existing store in a file; no program may have it open. `deadline` is how long to wait for that. */
  static encrypt(uri: string, options: KeyOptions & { deadline?: number }): Promise<void>;
  readonly closed: boolean;
  /** Ends what waits, waits for what runs, and closes the store. */
  close(): Promise<void>;

  create(key: string, options?: NewSession & { existOk?: boolean } & CallOptions): Promise<Session>;
  get(key: string, options?: {
    /** Only the newest so many; 0: the session without messages. */
    last?: Count; after?: Count; before?: Count; limit?: Count; view?: boolean;
  } & CallOptions): Promise<History>;
  exists(key: string, options?: CallOptions): Promise<boolean>;
  update(key: string, options: Settings & { ttl?: number; ifRevision?: Count } & CallOptions): Promise<Count>;
  delete(key: string, options?: { forks?: boolean } & CallOptions): Promise<void>;
  list(options?: ListOptions): Promise<{ sessions: Session[]; next: string | null }>;
  sessions(options?: ListOptions): AsyncGenerator<Session, void, undefined>;
  append(key: string, messages: Messages, options?: {
    ifRevision?: Count; create?: boolean; ttl?: number; settings?: Settings;
  } & CallOptions): Promise<Appended>;
  window(key: string, tokenBudget: Count, options?: { cut?: boolean } & CallOptions): Promise<Window>;
  search(query: string, options?: SearchOptions): Promise<{ hits: Hit[]; more: boolean }>;
  recall(question: string, options: RecallOptions): Promise<Recalled[]>;
  fork(key: string, newKey: string, options: NewSession & { at: Count } & CallOptions): Promise<Session>;
  /** A fork at message `to`; its key is "KEY@TO" when none is given. */
  rewind(key: string, to: Count, newKey?: string, options?: CallOptions): Promise<Session>;
  compact(key: string, summary: string, options: { upTo: Count } & CallOptions): Promise<Count>;
  uncompact(key: string, options?: CallOptions): Promise<void>;
  prune(key: string, options?: CallOptions): Promise<Count>;
  state(key: string, options?: CallOptions): Promise<{ [name: string]: Json }>;
  /** The state of a user of an app, names without "user:". */
  userState(appName: string, userId: string, options?: CallOptions): Promise<{ [name: string]: Json }>;
  blame(key: string, options?: CallOptions): Promise<StateEntry[]>;
  setState(key: string, name: string, value: unknown, options?: CallOptions): Promise<void>;
  deleteState(key: string, name: string, options?: CallOptions): Promise<void>;
  usage(options?: UsageOptions): Promise<{ rows: UsageRow[]; sessions: Count; next: string | null }>;
  erase(options: { key?: string; userId?: string; appName?: string; quick?: boolean } & CallOptions): Promise<Erasure>;
  sweep(options?: CallOptions): Promise<Count>;
  backup(path: string | URL, options?: CallOptions): Promise<void>;
  /** Gives an encrypted store another key; who opens it from now on needs it. */
  rekey(options: KeyOptions & CallOptions): Promise<void>;
  stats(options?: CallOptions): Promise<Stats>;
  index(options?: CallOptions): Promise<Count>;
  upgrade(options?: CallOptions): Promise<void>;
  verify(options?: { repair?: boolean } & CallOptions): Promise<Verified>;
  verifyAgainst(known: Source, options?: CallOptions): Promise<Compared>;

  /** Sessions, state and memories as JSON Lines: of the whole store, or of `key` and what it was forked from. */
  exportTo(to: Target, options?: { key?: string; flat?: boolean } & CallOptions): Promise<Transfer>;
  /** The head of each session, a line each, for verifyAgainst(). */
  heads(to: Target, options?: { key?: string } & CallOptions): Promise<Transfer>;
  importFrom(from: Source, options?: { mustBeNew?: boolean } & CallOptions): Promise<Transfer>;
  importSource(path: string | URL, options?: SourceOptions): Promise<Imported>;
  /** To a store that is new or holds the rest of an earlier copy. */
  copy(target: Store, options?: CallOptions): Promise<Copied>;

  modelFactor(model: string, options?: CallOptions): Promise<Factor>;
  modelFactorLearn(model: string, options: { estimated: Count; reported: Count } & CallOptions): Promise<Factor>;
  context(key: string, options?: ContextOptions): Promise<Context>;

  memorySave(key: string, content: string, options?: NewMemory): Promise<Memory>;
  memories(options: MemoryQuery): Promise<Memory[]>;
  memoryDelete(options: MemoryQuery): Promise<Count>;
  memoryUpdate(id: string, options: {
    kind?: MemoryKind; content?: string; priority?: Priority; subject?: string; retire?: boolean; why?: string; who?: string;
  } & CallOptions): Promise<Memory>;
  memoryRun(options?: MemoryRunOptions): Promise<MemoryRun>;
  /** A worker beside the program, until memoryStop() or close(). A store has one; Exists when it runs. */
  memoryStart(options?: WorkerOptions): Promise<void>;
  memoryStop(options?: CallOptions): Promise<MemoryRun>;
  memoryWorker<T>(options: WorkerOptions | undefined, act: (store: Store) => T | Promise<T>): Promise<T>;
  memoryStatus(options?: { key?: string; appName?: string; userId?: string } & CallOptions):
    Promise<{ sessions: MemoryProgress[]; more: boolean }>;

  artifactSave(key: string | undefined, name: string, data: Uint8Array | string, options?: ArtifactOptions & {
    mimeType?: string; metadata?: { [name: string]: unknown }; kind?: 'data' | 'text' | 'uri';
  }): Promise<Artifact>;
  artifact(key: string | undefined, name: string, options?: ArtifactOptions & { version?: Count }): Promise<Artifact>;
  artifacts(key?: string, options?: ArtifactOptions & { name?: string; versions?: boolean }): Promise<Artifact[]>;
  artifactDelete(key: string | undefined, name: string, options?: ArtifactOptions): Promise<Count>;

  /** The messages behind number `after`, then each as it is appended, by any process. */
  tail(key: string, options?: { after?: Count; timeout?: number } & CallOptions): AsyncGenerator<Message, void, undefined>;
  /** Waits for a change of any session; returns its number, for the next call. */
  changeWait(seen?: Count, options?: { timeout?: number } & CallOptions): Promise<Count>;
  feedRead(options?: { after?: string; limit?: Count; timeout?: number; fromNow?: boolean } & CallOptions):
    Promise<{ changes: Change[]; next: string }>;
  feed(options?: { after?: string; fromNow?: boolean; timeout?: number } & CallOptions): AsyncGenerator<Change, void, undefined>;
}

/** Opens a store by its path or URI, or creates it. */
export function open(uri: string, options?: OpenOptions & CallOptions): Promise<Store>;
/** Encrypts an existing store in a file; no program may have it open. */
export function encrypt(uri: string, options: KeyOptions & { deadline?: number }): Promise<void>;
/** Of the library. */
export const version: string;
export const sqliteVersion: string;

/** An error of the library, by what a caller can do about it. */
export class QuipuError extends Error {
  readonly code: string;
}
export class NotFound extends QuipuError {}
export class Exists extends QuipuError {}
export class Expired extends QuipuError {}
export class Conflict extends QuipuError {}
export class Busy extends QuipuError {}
export class Full extends QuipuError {}
/** It is not known whether the write happened: repeat it with the same event ids. */
export class Unknown extends QuipuError {}
export class Invalid extends QuipuError {}
export class Misuse extends QuipuError {}
export class Limit extends QuipuError {}
export class NoMemory extends QuipuError {}
export class InputOutput extends QuipuError {}
export class Corrupt extends QuipuError {}
export class Cancelled extends QuipuError {}
export class Unsupported extends QuipuError {}
export class Newer extends QuipuError {}

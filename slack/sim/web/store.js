// The page's copy of the workspace: read whole once, then kept up to date from the log of the simulator.

const kept = 3000; // entries that the inspector can look back on
const past = 500; // entries from before the page was opened that it is given
const words = 120000; // milliseconds after which an app's words vanish

export class Store {
  constructor() {
    this.n = 0; // the newest entry of the log that is taken in
    this.live = false;
    this.log = [];
    this.reset({});
    this.watchers = new Set();
    setInterval(() => this.fade(), 15000);
  }

  // reset takes over a whole state, as /sim/state gives it.
  reset(s) {
    this.roster(s);
    this.messages = new Map();
    this.sorted = new Map();
    for (const list of Object.values(s.messages || {})) for (const m of list || []) this.put(m);
    this.sessions = new Map();
    for (const x of s.sessions || []) this.sessions.set(sessionKey(x), x);
    this.views = new Map();
    for (const stack of Object.values(s.views || {})) for (const v of stack) this.views.set(v.id, v);
    for (const v of Object.values(s.homes || {})) this.views.set(v.id, v);
    this.told = new Map(); // when a session's words were last heard of
  }

  // roster takes over who and what is there, but for what was said.
  roster(s) {
    this.team = s.name || "Playground";
    this.people = index(s.people);
    this.channels = index(s.channels);
    this.groups = index(s.groups);
    this.apps = index(s.apps);
    this.prompts = new Map(Object.entries(s.prompts || {}));
    this.suggestions = s.suggest || [];
    this.faults = s.faults || [];
    this.limits = Boolean(s.limits);
  }

  put(m) {
    let c = this.messages.get(m.channel);
    if (!c) this.messages.set(m.channel, (c = new Map()));
    c.set(m.ts, m);
    this.sorted.delete(m.channel);
  }

  take(channel, ts) {
    this.messages.get(channel)?.delete(ts);
    this.sorted.delete(channel);
  }

  // order gives a channel's messages oldest first: those that stand in the channel, and the replies of each thread. It is
  // worked out once for all who ask between two changes.
  order(channel) {
    let o = this.sorted.get(channel);
    if (o) return o;
    o = { main: [], threads: new Map() };
    const all = [...(this.messages.get(channel)?.values() || [])].sort((a, b) => (a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0));
    for (const m of all) {
      const root = m.thread && m.thread !== m.ts ? m.thread : "";
      if (!root || m.broadcast) o.main.push(m);
      if (!root) continue;
      if (!o.threads.has(root)) o.threads.set(root, []);
      o.threads.get(root).push(m);
    }
    this.sorted.set(channel, o);
    return o;
  }

  // watch calls f(entry) after each change; entry is null after a whole new state.
  watch(f) {
    this.watchers.add(f);
  }

  tell(entry) {
    for (const f of this.watchers) f(entry);
  }

  // start reads the state and follows the log. After the connection was lost it does so again, since the simulator may be
  // another one by then.
  async start() {
    try {
      const state = await this.state();
      const known = this.n <= state.last ? this.n : 0;
      if (!known) this.log = [];
      this.reset(state);
      this.n = state.last;
      this.follow(Math.max(known, state.last - past));
      this.tell(null);
    } catch {
      this.lost();
    }
  }

  async state() {
    const r = await fetch("sim/state", { headers: { Accept: "application/json" } });
    if (!r.ok) throw new Error("the simulator answers " + r.status);
    return r.json();
  }

  follow(from) {
    const source = new EventSource("sim/log?from=" + from);
    this.source = source;
    source.onopen = () => {
      this.waits = 0;
      this.connected(true);
    };
    source.onmessage = (ev) => this.apply(JSON.parse(ev.data));
    source.onerror = () => this.lost();
  }

  // lost tries again, soon at first and then every few seconds.
  lost() {
    this.connected(false);
    this.source?.close();
    clearTimeout(this.again);
    this.waits = Math.min((this.waits || 0) + 1, 6);
    this.again = setTimeout(() => this.start(), this.waits * 500);
  }

  connected(yes) {
    if (this.live === yes) return;
    this.live = yes;
    this.tell(undefined);
  }

  // apply takes in one entry of the log. Those that the state already holds are only kept for the inspector.
  apply(e) {
    if (this.log.length && e.n <= this.log[this.log.length - 1].n) return;
    this.log.push(e);
    if (this.log.length > kept) this.log.splice(0, this.log.length - kept);
    if (e.n <= this.n) return;
    this.n = e.n;
    if (e.message) {
      if (e.what === "removed") this.take(e.message.channel, e.message.ts);
      else this.put(e.message);
    }
    if (e.session) {
      this.sessions.set(sessionKey(e.session), e.session);
      this.told.set(sessionKey(e.session), Date.now());
    }
    if (e.view) {
      if (e.what === "view_close") this.views.delete(e.view.id);
      else this.views.set(e.view.id, e.view);
    }
    if (e.what === "changed" || e.what === "joined" || e.what === "left" || e.what === "suggested") this.refresh();
    this.tell(e);
  }

  // refresh reads again what the log only mentions: who is there, channels, prompts, faults. It ends when all that had
  // happened by the time it was called is there.
  refresh() {
    this.stale = true;
    this.refreshing ||= this.reread().finally(() => { this.refreshing = null; });
    return this.refreshing;
  }

  async reread() {
    try {
      while (this.stale) {
        this.stale = false;
        const s = await this.state();
        this.roster(s);
        for (const x of s.sessions || []) if (s.last >= this.n) this.sessions.set(sessionKey(x), x);
      }
      this.tell(null);
    } catch {
      // That the connection is gone is noticed by the stream of the log, which says it.
    }
  }

  // fade looks again at sessions whose words are old: the log does not tell when words vanish by themselves.
  fade() {
    const old = [...this.sessions].some(([k, x]) => x.words && Date.now() - (this.told.get(k) || 0) > words);
    if (!old || !this.live) return;
    for (const [k, x] of this.sessions) if (x.words) this.told.set(k, Date.now());
    this.refresh();
  }

  // act does something in the workspace; it gives what the simulator answers and throws an Error in its words.
  async act(name, args) {
    let r;
    try {
      r = await fetch("sim/do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...args, act: name }) });
    } catch {
      throw new Error("the simulator cannot be reached");
    }
    const answer = await r.json().catch(() => ({}));
    if (!r.ok || answer.error) throw new Error(answer.error || "the simulator answers " + r.status);
    return answer;
  }

  // in gives a channel's messages that a person can see, oldest first: those outside of threads, or a thread with its root.
  in(channel, person, thread) {
    const { main, threads } = this.order(channel);
    const root = thread && this.message(channel, thread);
    const list = thread ? [...(root ? [root] : []), ...(threads.get(thread) || [])] : main;
    return list.filter((m) => !m.to || m.to === person);
  }

  message(channel, ts) {
    return this.messages.get(channel)?.get(ts);
  }

  // replies gives a thread's replies that everybody in the channel can see.
  replies(channel, thread) {
    return (this.order(channel).threads.get(thread) || []).filter((m) => !m.to);
  }

  // session gives what an app is doing in a thread.
  session(channel, thread) {
    let found;
    for (const s of this.sessions.values()) {
      if (s.channel === channel && s.thread === thread && (s.words || s.state === "processing" || !found)) found = s;
    }
    return found;
  }

  // rooms gives the channels that a person is in, and the public ones that they could join.
  rooms(person) {
    const me = this.people.get(person);
    const all = [...this.channels.values()].filter((c) => !c.archived || c.members.includes(person));
    const mine = all.filter((c) => (c.members || []).includes(person));
    const open = !me || me.kind === "member" || !me.kind ? all.filter((c) => (c.kind === "public" || c.kind === "shared") && !c.members.includes(person)) : [];
    return { mine, open };
  }

  // names tells what ids are called, for one reader.
  names(me) {
    return {
      me,
      user: (id) => this.people.get(id)?.name || id,
      channel: (id) => this.channels.get(id)?.name || "private",
      group: (id) => this.groups.get(id)?.handle || id,
      people: () => [...this.people.values()].map((p) => [p.id, p.name]),
      rooms: () => this.rooms(me).mine.filter((c) => c.name).map((c) => [c.id, "#" + c.name]),
    };
  }

  // called names a conversation the way a person sees it.
  called(c, person) {
    if (c.app) return this.apps.get(c.app)?.name || "App";
    if (c.kind === "im" || c.kind === "mpim") {
      const others = c.members.filter((id) => id !== person).map((id) => this.people.get(id)?.name || id);
      return others.join(", ") || this.people.get(person)?.name || c.id;
    }
    return c.name || c.id;
  }
}

function index(list) {
  return new Map((list || []).map((x) => [x.id, x]));
}

function sessionKey(s) {
  return [s.app, s.channel, s.thread].join(" ");
}

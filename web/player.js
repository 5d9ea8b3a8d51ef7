// The player: numbered PCM messages in, gapless sound out, and honest figures about both.
//
// THE PROTOCOL. Each value the component is given is one message, a plain object with `kind` and `take`.
//
//   in   status   {take, phase, detail}                what happens before the sound; a sentence for a person
//        config   {take, sample_rate, start_buffer_s, name}  once, before audio: the rate, how much to hold first
//        audio    {take, seq, pcm}                     base64 of int16 little-endian mono; seq counts 0, 1, 2 ...
//        mark     {take, at, lines, label}             from sample `at` on these lines sound; the label says it
//        end      {take, seq, reason, samples}         seq is the number of audio messages, samples their sum
//        trouble  {take, sentence}                     the take failed; what was made so far still plays
//        clear    {}                                   stop: fade, then silence; that take is never heard again
//   out  started  {take, click_to_sound_ms}            the first sample reached the ears (null: nobody clicked)
//        underrun {take, underruns}                    sound went on after the player had run dry
//        stats    {take, state, made_samples, ...}     what stats() says, when a take has been played to its end
//
// A take may be a whole scene: its lines follow one another in one stream, silences are samples like others, and
// marks tell which lines sound. Whenever that changes, the window gets an event "tableread:sounding" with
// {take, lines} in its detail; `lines` is empty where none does, at the end and after a stop.
//
// The first message of an unknown take replaces the take before it. A take that was stopped or replaced is
// over: whatever still arrives of it is dropped. On the page: window.tableread.stop(), .asked(), .stats(),
// .tap (a test's way to sit between the player and the output).
//
// THE RULE OF THE SAMPLES. Every sample of an undisturbed take reaches the output as it was sent, divided by
// 32768. Where sound stops (ran dry, paused, end) a short fall from the last sample is put in behind it, and
// where it goes on a short rise in front of the next: silence is inserted, no sample is changed or lost. Only
// a stop fades the take's own samples, because nothing follows.
//
// No text from a message may pass through a template or innerHTML: textContent only.

const STYLE = "@@player.css@@"; // web/player.py puts the style sheet here
const PEAK_S = 0.02; // one bar's worth of waveform
const AXIS_S = 6; // a take that is still being made is drawn on at least this many seconds
const LATE_MS = 2000; // how long after a stop a first message may still be under way
const BLOCKED_AFTER_MS = 400; // a context that may run does so within about 50 ms

// ---------------------------------------------------------------- in the audio thread

const audioThread = () => {
  const FADE_S = 0.012; // long enough not to click, short enough that a stop feels immediate
  const REPORT_S = 0.05;
  const NOTHING = new Float32Array(0);

  class TakePlayer extends AudioWorkletProcessor {
    constructor() {
      super();
      this.fade = Math.round(FADE_S * sampleRate);
      this.last = 0; // the sample before this one, whatever it was
      this.insert = NOTHING; // a fall or a rise that goes out before anything else
      this.inserted = 0;
      this.forget();
      this.port.onmessage = ({ data }) => this[data.act](data);
    }

    forget() {
      this.run = 0;
      this.blocks = [];
      this.offset = 0; // in blocks[0]
      this.held = 0; // samples in blocks
      this.played = 0;
      this.reported = 0;
      this.sounding = false;
      this.started = false;
      this.dry = false;
      this.paused = false;
      this.finished = true;
      this.ended = true;
    }

    open({ run, need }) {
      this.cut();
      Object.assign(this, { run, need, finished: false, ended: false });
    }

    push({ run, pcm }) {
      if (run !== this.run || !pcm.length) return;
      this.blocks.push(pcm);
      this.held += pcm.length;
    }

    finish({ run }) {
      if (run === this.run) this.finished = true;
    }

    pause() {
      this.paused = true;
      if (this.sounding) this.fall();
      this.sounding = false;
    }

    go() {
      this.paused = false;
    }

    cut() {
      const alive = this.sounding && this.inserted === this.insert.length;
      const end = new Float32Array(this.last || alive ? this.fade : 0);
      let sample = this.last;
      for (let k = 0; k < end.length; k++) {
        if (alive && this.held) sample = this.take();
        end[k] = sample * this.down(k);
      }
      this.put(end);
      this.forget();
    }

    down(k) {
      return 0.5 + 0.5 * Math.cos((Math.PI * (k + 1)) / this.fade);
    }

    put(samples) {
      this.insert = samples;
      this.inserted = 0;
    }

    fall() {
      if (!this.last) return;
      this.put(Float32Array.from({ length: this.fade }, (_, k) => this.last * this.down(k)));
    }

    rise() {
      const next = this.blocks[0][this.offset] / 32768;
      const step = next - this.last;
      this.put(Float32Array.from({ length: this.fade }, (_, k) => next - step * this.down(k)));
    }

    take() {
      const block = this.blocks[0];
      const sample = block[this.offset++] / 32768;
      this.held--;
      this.played++;
      if (this.offset === block.length) {
        this.blocks.shift();
        this.offset = 0;
      }
      return sample;
    }

    say(what, more = {}) {
      this.port.postMessage({ what, run: this.run, played: this.played, ...more });
    }

    start() {
      if (this.sounding || this.paused || this.ended) return;
      if (this.finished && !this.held) return this.end();
      if (this.held < this.need && !this.finished) return;
      if (this.started && this.held) this.rise();
      if (this.dry) {
        // Counted here and not where it ran dry: dry and then finished is an end, not an underrun.
        this.say("underrun");
        this.need = Math.min(2 * Math.max(this.need, 0.1 * sampleRate), sampleRate);
      }
      this.dry = false;
      this.sounding = true;
    }

    end() {
      this.ended = true;
      this.sounding = false;
      this.fall();
      this.say("ended");
    }

    next(index) {
      if (!this.held) {
        if (this.finished) this.end();
        else {
          this.sounding = false;
          this.dry = true;
          this.fall();
          this.say("dry");
        }
        return this.inserted < this.insert.length ? this.insert[this.inserted++] : 0;
      }
      if (!this.started) {
        this.started = true;
        this.say("started", { clock: Date.now() + (1000 * index) / sampleRate });
      }
      return this.take();
    }

    process(_inputs, [[out]]) {
      this.start();
      for (let i = 0; i < out.length; i++) {
        if (this.inserted < this.insert.length) out[i] = this.insert[this.inserted++];
        else out[i] = this.sounding ? this.next(i) : 0;
        this.last = out[i];
      }
      if (this.played - this.reported >= REPORT_S * sampleRate) {
        this.reported = this.played;
        this.say("at");
      }
      return true;
    }
  }

  registerProcessor("tableread-player", TakePlayer);
};

// ---------------------------------------------------------------- state

window.tableread?.dispose?.();
const gone = new AbortController(); // takes every listener with it when the component is drawn anew
let sound = null; // {context, node, ready}: the open output, kept from take to take while the rate stays
let take = null; // the take on stage
let runs = 0; // each opening of the worklet, a replay too, has its number: late reports of another are dropped
let askedAt = null; // when someone last asked for a take, on performance.now()'s clock
let dropped = 0; // messages of takes that are over
let refuseUntil = 0; // a take that begins before this was stopped before its first message came
let sounding = null; // the mark whose lines are heard now
const over = []; // ids of takes that were stopped or replaced, newest last

const newTake = (id, at) => ({
  id,
  askedAt,
  openedAt: at,
  name: "Take",
  rate: 0,
  mode: null, // "worklet" or "file", once config has come
  run: 0,
  blocks: [],
  made: 0, // samples that have arrived
  seen: 0, // the next seq expected
  lost: 0,
  sent: null, // samples, by the word of the sender
  marks: [], // {at, lines, label}, in order
  peaks: [],
  peakFill: 0,
  loudest: 0.25, // what fills the stage: a whisper stays small
  firstAt: 0, // when the first message came, and how many samples it brought
  firstSamples: 0,
  lastAt: 0,
  played: 0,
  underruns: 0,
  clickToSoundMs: null,
  started: false,
  dry: false,
  paused: false,
  waited: false, // the context has had its time to start
  blocked: false, // a tap was needed
  ended: false, // heard to its end
  cut: false, // stopped
  again: false, // a replay
  reason: null, // why no more will come
  detail: "",
  sentence: "", // what went wrong
  file: null, // the <audio> of the mode "file"
  needsTap: false,
});

const begin = (id, at) => {
  if (take?.id === id) return take.cut ? null : take;
  if (at < refuseUntil) over.push(id);
  if (over.includes(id)) return null;
  if (take) {
    retire();
    if (take.file) URL.revokeObjectURL(take.file.src);
  }
  take = newTake(id, at);
  askedAt = null;
  return take;
};

const retire = () => {
  over.push(take.id);
  if (over.length > 64) over.shift();
  silence();
};

const silence = () => {
  sound?.node?.port.postMessage({ act: "cut" });
  if (take?.file) take.file.pause();
};

// ---------------------------------------------------------------- the output

const canStream = () => Boolean(window.AudioContext && window.AudioWorkletNode && window.isSecureContext);

// The context is made at once, so that a click counts as permission; the rest follows in `ready`.
const openSound = (rate) => {
  if (sound && sound.context.sampleRate === rate) return sound;
  closeSound();
  if (navigator.audioSession) navigator.audioSession.type = "playback"; // else an iPhone's ring switch mutes us
  const context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
  const mine = { context, node: null, ready: null };
  mine.ready = connect(mine);
  mine.ready.catch(() => {}); // whoever awaits it hears of it
  context.addEventListener("statechange", show);
  sound = mine;
  return mine;
};

const connect = async (mine) => {
  const url = URL.createObjectURL(new Blob([`(${audioThread})()`], { type: "text/javascript" }));
  try {
    await mine.context.audioWorklet.addModule(url);
  } finally {
    URL.revokeObjectURL(url);
  }
  mine.node = new AudioWorkletNode(mine.context, "tableread-player", { numberOfInputs: 0, outputChannelCount: [1] });
  mine.node.port.onmessage = ({ data }) => take && data.run === take.run && reports[data.what](data);
  const last = (await window.tableread.tap?.(mine.context, mine.node)) || mine.node;
  last.connect(mine.context.destination);
  wake();
};

const closeSound = () => {
  if (!sound) return;
  const old = sound;
  sound = null;
  old.node?.port.postMessage({ act: "cut" });
  setTimeout(() => old.context.close(), 100); // after the fade
};

const wake = () => {
  if (sound && sound.context.state !== "running") sound.context.resume().then(show, show);
};

const tell = (message, transfer = []) => sound.node.port.postMessage({ run: take.run, ...message }, transfer);
const push = (pcm) => {
  const copy = pcm.slice(); // ours stays for the replay
  tell({ act: "push", pcm: copy }, [copy.buffer]);
};

const latencyMs = () => 1000 * (sound.context.outputLatency || sound.context.baseLatency || 0);

const reports = {
  started({ clock }) {
    // `clock` is the wall clock of the audio thread; the lag is how long this report waited for us.
    heard(performance.now() - (Date.now() - clock) + latencyMs());
  },
  at({ played }) {
    take.played = played;
    show();
  },
  dry({ played }) {
    Object.assign(take, { played, dry: true });
    show();
  },
  underrun() {
    take.dry = false;
    take.underruns++;
    trigger("underrun", { take: take.id, underruns: take.underruns });
    show();
  },
  ended({ played }) {
    take.played = played;
    finishHearing();
  },
};

const heard = (at) => {
  const first = !take.started;
  Object.assign(take, { started: true, dry: false });
  if (first) {
    if (take.askedAt !== null && !take.blocked) take.clickToSoundMs = Math.max(0, at - take.askedAt);
    trigger("started", { take: take.id, click_to_sound_ms: take.clickToSoundMs });
  }
  show();
};

const finishHearing = () => {
  Object.assign(take, { ended: true, dry: false });
  trigger("stats", stats());
  show();
};

// ---------------------------------------------------------------- messages

const handlers = {
  status({ take: id, phase, detail }, at) {
    const mine = begin(id, at);
    if (mine) mine.detail = detail || phase || "";
    else dropped++;
  },

  async config({ take: id, sample_rate, start_buffer_s, name }, at) {
    const mine = begin(id, at);
    if (!mine || mine.mode) return void dropped++;
    Object.assign(mine, { rate: sample_rate, mode: "file", name: name || mine.name });
    if (!canStream()) return;
    try {
      await openSound(sample_rate).ready;
    } catch (fault) {
      console.warn("Tableread: no streaming sound here, the finished take will play instead.", fault);
      closeSound();
      return;
    }
    if (mine !== take || mine.cut) return;
    mine.mode = "worklet";
    mine.run = ++runs;
    wake();
    tell({ act: "open", need: Math.round(start_buffer_s * sample_rate) });
    setTimeout(() => {
      mine.waited = true;
      show();
    }, BLOCKED_AFTER_MS);
  },

  audio({ take: id, seq, pcm }, at) {
    if (id !== take?.id || take.cut || !take.mode || seq < take.seen) return void dropped++;
    take.lost += seq - take.seen;
    take.seen = seq + 1;
    const samples = decode(pcm);
    if (!take.made) Object.assign(take, { firstAt: at, firstSamples: samples.length });
    take.lastAt = at;
    take.detail = ""; // what was announced has happened
    take.blocks.push(samples);
    take.made += samples.length;
    addPeaks(samples);
    if (take.mode === "worklet") push(samples);
  },

  mark({ take: id, at, lines, label }) {
    if (id !== take?.id || take.cut || !take.mode) return void dropped++;
    take.marks.push({ at, lines, label });
  },

  end({ take: id, seq, reason, samples }) {
    if (id !== take?.id || take.cut || take.reason) return void dropped++;
    take.lost += Math.max(0, seq - take.seen);
    take.sent = samples;
    finish(reason);
  },

  trouble({ take: id, sentence }, at) {
    const mine = begin(id, at);
    if (!mine) return void dropped++;
    mine.sentence = sentence;
    if (!mine.reason) finish("trouble");
  },

  clear: () => stop(),
};

// Tells the page which lines are heard, as often as that changes.
const follow = () => {
  const mark = take && take.started && !take.ended ? take.marks.findLast(({ at }) => at <= take.played) : null;
  if ((mark ?? null) === sounding) return;
  sounding = mark ?? null;
  const detail = { take: take?.id ?? null, lines: sounding?.lines ?? [] };
  window.dispatchEvent(new CustomEvent("tableread:sounding", { detail }));
};

const finish = (reason) => {
  take.reason = reason;
  if (take.mode === "worklet") tell({ act: "finish" });
  else if (take.made) playFile();
  else take.ended = true;
};

const decode = (base64) => {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return new Int16Array(bytes.buffer, 0, bytes.length >> 1);
};

const addPeaks = (samples) => {
  const hop = Math.max(1, Math.round(PEAK_S * take.rate));
  for (const sample of samples) {
    if (take.peakFill === 0) take.peaks.push(0);
    const size = Math.abs(sample) / 32768;
    if (size > take.peaks[take.peaks.length - 1]) take.peaks[take.peaks.length - 1] = size;
    if (size > take.loudest) take.loudest = size;
    take.peakFill = (take.peakFill + 1) % hop;
  }
};

// ---------------------------------------------------------------- without a worklet: the finished take as a file

const wav = () => {
  const head = new DataView(new ArrayBuffer(44));
  const text = (at, word) => [...word].forEach((letter, i) => head.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  head.setUint32(4, 36 + 2 * take.made, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true); // PCM
  head.setUint16(22, 1, true); // mono
  head.setUint32(24, take.rate, true);
  head.setUint32(28, 2 * take.rate, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  text(36, "data");
  head.setUint32(40, 2 * take.made, true);
  return new Blob([head, ...take.blocks], { type: "audio/wav" });
};

const playFile = () => {
  const mine = take;
  if (!mine.file) {
    mine.file = new Audio(URL.createObjectURL(wav()));
    mine.file.addEventListener("playing", () => mine === take && heard(performance.now()));
    mine.file.addEventListener("timeupdate", () => {
      mine.played = Math.min(mine.made, Math.round(mine.file.currentTime * mine.rate));
      if (mine === take) show();
    });
    mine.file.addEventListener("ended", () => {
      mine.played = mine.made;
      if (mine === take) finishHearing();
    });
  }
  mine.file.currentTime = 0;
  mine.file.play().then(
    () => {
      mine.needsTap = false;
      show();
    },
    () => {
      mine.needsTap = true;
      show();
    },
  );
};

// ---------------------------------------------------------------- what a person does

const asked = (at = performance.now()) => {
  askedAt = at;
  refuseUntil = 0;
};

const stop = () => {
  if (props.ask && askedAt !== null) {
    askedAt = null;
    refuseUntil = performance.now() + LATE_MS;
  }
  if (!take || take.ended) return;
  if (!take.again) take.cut = true; // stopping a replay doesn't make a whole take a cut one
  take.ended = true;
  retire();
  show();
};

const replay = () => {
  Object.assign(take, { played: 0, ended: false, paused: false, again: true });
  if (take.mode === "worklet") {
    const mine = openSound(take.rate);
    const playing = take;
    mine.ready.then(() => {
      if (playing !== take) return;
      take.run = ++runs;
      tell({ act: "open", need: take.made });
      take.blocks.forEach(push);
      tell({ act: "finish" });
    });
  } else playFile();
};

const press = () => {
  wake();
  const state = phase();
  if (state === "ended" || state === "stopped" || state === "trouble") replay();
  else if (state === "blocked" && take.mode === "file") playFile();
  else if (state === "paused" || state === "playing" || state === "dry") {
    take.paused = !take.paused;
    if (take.mode === "worklet") tell({ act: take.paused ? "pause" : "go" });
    else if (take.paused) take.file.pause();
    else take.file.play().catch(() => {});
  }
  show();
};

// Captured before the page sees them, so that the context is made or woken inside the gesture itself.
for (const kind of ["pointerdown", "pointerup", "keydown"]) {
  window.addEventListener(
    kind,
    () => {
      if (!sound && props.sample_rate && canStream()) openSound(props.sample_rate);
      wake();
    },
    { capture: true, signal: gone.signal },
  );
}
window.addEventListener(
  "click",
  ({ target, timeStamp }) => {
    if (element.contains(target)) return;
    const asks = props.ask?.split(" ") ?? [];
    if (!asks.length || asks.some((id) => target.closest?.(`#${CSS.escape(id)}`))) asked(timeStamp);
  },
  { capture: true, signal: gone.signal },
);

// ---------------------------------------------------------------- figures

const speed = () => {
  const span = (take.lastAt - take.firstAt) / 1000;
  return span > 0.2 ? (take.made - take.firstSamples) / take.rate / span : null;
};

// Milliseconds from the click that asked for this take to `at`, or null where nobody clicked or it never came.
const sinceAsked = (at) => (take && at && take.askedAt !== null ? at - take.askedAt : null);

const stats = () => ({
  take: take?.id ?? null,
  state: phase(),
  mode: take?.mode ?? null,
  sample_rate: take?.rate ?? 0,
  sent_samples: take?.sent ?? null,
  made_samples: take?.made ?? 0,
  played_samples: take?.played ?? 0,
  click_to_message_ms: sinceAsked(take?.openedAt),
  click_to_audio_ms: sinceAsked(take?.firstAt),
  click_to_sound_ms: take?.clickToSoundMs ?? null,
  speed: take ? speed() : null, // seconds of audio that arrived per second, after the first message
  underruns: take?.underruns ?? 0,
  lost: take?.lost ?? 0,
  dropped,
  reason: take?.reason ?? null,
  context: sound?.context.state ?? null,
  latency_ms: sound ? latencyMs() : null,
});

const isBlocked = () => {
  if (!take.made || take.paused) return false;
  if (take.mode === "file") return Boolean(take.needsTap);
  if (sound?.context.state === "running" || !(take.waited || take.again)) return false;
  return true;
};

const phase = () => {
  if (!take) return "idle";
  if (take.again && !take.ended) return isBlocked() ? "blocked" : take.paused ? "paused" : "playing";
  if (take.cut) return "stopped";
  if (take.sentence && (take.ended || !take.made)) return "trouble";
  if (take.ended) return "ended";
  if (isBlocked()) return "blocked";
  if (take.paused) return "paused";
  if (take.dry && !take.reason) return "dry";
  return take.started ? "playing" : "busy";
};

// ---------------------------------------------------------------- what is seen

const make = (tag, name, text = "") => {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  return node;
};

const styled = document.getElementById("tableread-player-css") || document.head.appendChild(make("style", ""));
styled.id = "tableread-player-css";
styled.textContent = STYLE;

const root = element.querySelector(".tr-player");
const button = make("button", "tr-button");
button.type = "button";
const icon = make("span", "tr-icon");
icon.ariaHidden = "true";
const tapWord = make("span", "tr-tap", "Tap to hear");
button.append(icon, tapWord);
const title = make("p", "tr-title");
const detail = make("p", "tr-detail");
const words = make("div", "tr-words");
words.setAttribute("role", "status");
words.setAttribute("aria-live", "polite");
words.append(title, detail);
const clock = make("p", "tr-clock");
const elapsed = make("span", "tr-elapsed");
const total = make("span", "tr-total");
clock.append(elapsed, total);
const top_ = make("div", "tr-top");
top_.append(button, words, clock);
const stage = make("div", "tr-stage");
const canvas = make("canvas", "tr-wave");
canvas.ariaHidden = "true";
const sweep = make("div", "tr-sweep");
stage.append(canvas, sweep);
const meters = make("dl", "tr-meters");
const meter = (name, hint) => {
  const cell = make("div", "tr-meter");
  const value = make("dd", "", "–");
  cell.title = hint;
  cell.append(make("dt", "", name), value);
  meters.append(cell);
  return value;
};
const meterFirst = meter("First sound", "From the click to the first sound as heard, output delay included");
const meterMade = meter("Made", "Sound that has arrived so far");
const meterSpeed = meter("Speed", "Seconds of sound that arrive per second");
const meterDry = meter("Underruns", "How often the player ran dry in the middle of the take");
const meterLost = meter("Lost", "Messages that were sent and did not arrive");
root.replaceChildren(top_, stage, meters);
root.setAttribute("role", "group");
root.setAttribute("aria-label", "Player");
button.addEventListener("click", press, { signal: gone.signal });

const put = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const time = (samples) => {
  const s = take?.rate ? samples / take.rate : 0;
  return `${Math.floor(s / 60)}:${(Math.floor((s % 60) * 10) / 10).toFixed(1).padStart(4, "0")}`;
};

const ENDINGS = {
  stop: "complete",
  length: "ended at its length limit",
  deadline: "ended at its time limit",
  cancelled: "cut short",
};

const WHOLE_ONLY = "This browser can't play sound while it is made: the whole take plays when it is ready.";

const titleOf = {
  idle: () => "Ready",
  busy: () => (!take.made ? "Getting ready" : take.mode === "file" ? "Being made" : "First sound is on its way"),
  blocked: () => "The sound is ready",
  playing: () => (take.again ? "Playing again" : take.reason ? "Playing" : "Performing"),
  dry: () => "Waiting for more sound",
  paused: () => "Paused",
  ended: () => `${take.name} ${ENDINGS[take.reason] || ENDINGS.stop}`,
  stopped: () => "Stopped",
  trouble: () => (take.made ? `${take.name} broke off` : "That didn't work"),
};

const detailOf = (state) => {
  if (state === "idle") return "Press Perform: it plays here while it is being made.";
  if (take.sentence) return take.sentence;
  if (state === "blocked") return "This browser waits for a tap before it plays. Nothing is missed.";
  if (take.mode === "file" && !take.reason) return WHOLE_ONLY;
  if (state === "stopped") return take.made ? "What was made is kept." : "";
  if (state === "ended") return isWhole() ? "" : "Some of its sound was lost on the way here.";
  if (sounding?.label && (state === "playing" || state === "paused")) return sounding.label;
  return take.reason ? "" : take.detail;
};

const isWhole = () => !take.lost && (take.sent ?? take.made) === take.made;

const BUTTON = {
  playing: "Pause",
  dry: "Pause",
  paused: "Go on",
  blocked: "Tap to hear",
  ended: "Play again",
  stopped: "Play what was made",
  trouble: "Play what was made",
};

const show = () => {
  follow();
  const state = phase();
  if (state === "blocked") take.blocked = true;
  root.dataset.state = state;
  root.dataset.trouble = Boolean(take?.sentence);
  root.dataset.made = Boolean(take?.made);
  put(title, titleOf[state]());
  put(detail, detailOf(state));
  detail.hidden = !detail.textContent;
  button.disabled = !BUTTON[state] || !take?.made || (state === "paused" && !take.started);
  button.setAttribute("aria-label", BUTTON[state] || "Play");
  put(elapsed, time(take?.played ?? 0));
  put(total, time(take?.made ?? 0));
  put(meterFirst, take?.clickToSoundMs == null ? "–" : `${(take.clickToSoundMs / 1000).toFixed(2)} s`);
  put(meterMade, take?.rate ? `${(take.made / take.rate).toFixed(1)} s` : "–");
  const fast = take && speed();
  put(meterSpeed, fast ? `${fast.toFixed(fast >= 10 ? 0 : 1)}×` : "–");
  meterSpeed.dataset.unit = fast ? " real time" : "";
  warn(meterDry, take?.underruns);
  warn(meterLost, take?.lost);
  draw();
};

const warn = (node, count) => {
  put(node, count === undefined ? "–" : String(count));
  node.classList.toggle("tr-warn", count > 0);
};

const draw = () => {
  const { clientWidth: wide, clientHeight: high } = canvas;
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  if (!wide) return;
  if (canvas.width !== Math.round(wide * scale)) canvas.width = Math.round(wide * scale);
  if (canvas.height !== Math.round(high * scale)) canvas.height = Math.round(high * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, wide, high);
  const style = getComputedStyle(root);
  const [past, coming, rest] = ["--tr-played", "--tr-made", "--tr-rest"].map((part) => style.getPropertyValue(part));
  const [step, width] = [5, 3];
  const bars = Math.floor((wide + step - width) / step);
  const made = take?.peaks.length ?? 0;
  const axis = take && !take.reason && !take.cut ? Math.max(made, AXIS_S / PEAK_S) : made;
  const played = made && take.made ? (take.played / take.made) * made : 0;
  for (let bar = 0; bar < bars; bar++) {
    const from = (bar * axis) / bars;
    const to = Math.max(from + 1e-9, ((bar + 1) * axis) / bars);
    let peak = 0;
    for (let k = Math.floor(from); k < Math.min(Math.ceil(to), made); k++) peak = Math.max(peak, take.peaks[k]);
    const there = from < made;
    const tall = there ? Math.max(3, Math.sqrt(peak / take.loudest) * (high - 4)) : 3;
    pen.fillStyle = !there ? rest : (from + to) / 2 < played ? past : coming;
    pen.beginPath();
    if (pen.roundRect) pen.roundRect(bar * step, (high - tall) / 2, width, tall, width / 2);
    else pen.rect(bar * step, (high - tall) / 2, width, tall);
    pen.fill();
  }
};

// For the page, which lets a player stick: how much of a narrow one lies above its last row and may scroll away, and
// how much is seen then.
const measure = () => {
  const { top, height } = root.getBoundingClientRect();
  const edge = root.clientTop + parseFloat(getComputedStyle(root).paddingTop);
  const folded = Math.max(0, Math.floor(top_.getBoundingClientRect().top - top - edge));
  const { style } = document.documentElement;
  style.setProperty("--tr-folded", `${folded}px`);
  style.setProperty("--tr-seen", `${Math.ceil(height) - folded}px`);
};
const resized = new ResizeObserver(() => {
  draw();
  measure();
});
resized.observe(canvas);
resized.observe(root);
const themed = new MutationObserver(draw); // light to dark is a class on the body
themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });

// ---------------------------------------------------------------- wiring

window.tableread = {
  tap: window.tableread?.tap, // async (context, node) => the node to connect to the output instead
  stop,
  asked: () => asked(), // for a page that asks for a take in another way than by the button `ask`
  stats,
  file: () => (take?.made ? wav() : null),
  dispose() {
    gone.abort();
    resized.disconnect();
    themed.disconnect();
    take = null;
    closeSound();
  },
};

// Strictly in order: a config waits for the audio thread, and what follows waits for it.
let turn = Promise.resolve();
watch("value", () => {
  const message = props.value;
  const at = performance.now();
  if (!message?.kind || !Object.hasOwn(handlers, message.kind)) return;
  turn = turn
    .then(() => handlers[message.kind](message, at))
    .catch((fault) => console.error("Tableread player:", fault))
    .then(show);
});
show();

// Rappel for opencode: saves before the agent changes something, and remembers what happened.
// `rappel integrate opencode` wrote this file, and `rappel integrate opencode --remove` takes it away.
//
// Each event goes to `rappel hook opencode` as JSON. Nothing here may stop opencode: a program that is
// missing (told once), fails or takes too long is passed over. opencode awaits every hook but `event`.
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import fs from "node:fs"
import os from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const PROGRAM = "rappel"
const ARGUMENTS = ["hook", "opencode"]
const AGAIN = "rappel integrate opencode"

// How long opencode waits, in milliseconds. The program itself gives up earlier.
const LIMITS = { "tool.execute.before": 125000, "chat.message": 30000, "command.execute.before": 30000 }
const LIMIT = 7000
// After a call that took too long, the next ones have less time.
const SHORT = 3000
// Tools that change nothing. The database tells of them.
const READERS =
  /^(read|grep|glob|list|ls|webfetch|websearch|codesearch|todowrite|todoread|skill|question|lsp|task|plan_enter|plan_exit|invalid|rappel_.*)$/
const COMMAND = /^rappel[/:](.*)$/
// Flags of opencode whose value may be the next word.
const VALUED =
  /^(--(log-level|port|hostname|mdns-domain|cors|model|session|prompt|agent|command|file|format|title|attach|dir|variant|password|username)|-[msfpu])$/
// What may be typed for Rappel itself.
const TYPED = /^\s*[/$]?rappel\b/

/** An error that opencode shows: the prompt was answered here, and the model is not asked. */
class Answered extends Error {}

/** A file with the text, to be read from its start, whose name is gone already; nothing where none can be written. */
function fileWith(text) {
  const name = path.join(os.tmpdir(), `rappel-${randomBytes(12).toString("hex")}`)
  try {
    fs.writeFileSync(name, text, { mode: 0o600, flag: "wx" })
    return fs.openSync(name, "r")
  } catch {
    return undefined
  } finally {
    try {
      fs.unlinkSync(name)
    } catch {}
  }
}

/** The first word of a command line that is neither a flag nor its value. */
function firstWord(words) {
  const at = words.findIndex((word, place) => !word.startsWith("-") && !VALUED.test(words[place - 1] ?? ""))
  return words[at]
}

export const Rappel = async ({ client, directory, worktree }) => {
  /** What is known of sessions: who sent them. */
  const sessions = new Map()
  /** The sessions whose beginning was told, and the answer to that. */
  const starts = new Map()
  /** What the model has to be told again after its context was summed up. */
  const recalls = new Map()
  /** Calls that were announced and have not ended. */
  const calls = new Map()
  /** The sessions in which opencode is at work. */
  const busy = new Set()
  /** Prompts that were typed meanwhile, by session, the oldest first. */
  const queued = new Map()
  /** What is told of those that opencode has turned to. */
  const turns = new Map()
  let slow = false
  let isTold = false

  const isRun = firstWord(process.argv.slice(2)) === "run"

  /** Tells the user once that the program cannot be started. One that is looked for on the PATH may be missing. */
  function tellUnstarted(error) {
    if (isTold || !path.isAbsolute(PROGRAM)) return
    isTold = true
    const own = fileURLToPath(import.meta.url)
    const gone = `Rappel is not at ${PROGRAM} any more, so nothing is saved. Install it again and run \`${AGAIN}\`, or delete ${own}.`
    const other = `Rappel cannot be started (${error?.message}), so this is not saved. It says so once.`
    notify({ notice: fs.existsSync(PROGRAM) ? other : gone })
  }

  /** Tells Rappel of an event; its answer, or nothing. Never fails. */
  function tell(event, about, input, output) {
    return new Promise((resolve) => {
      let timer
      const failed = (error) => {
        done()
        tellUnstarted(error)
      }
      const done = (answer) => {
        clearTimeout(timer)
        resolve(answer && typeof answer === "object" ? answer : {})
      }
      try {
        const payload = { event, cwd: directory, worktree, run: isRun, ...about, input, output }
        const text = JSON.stringify(payload)
        // Rappel reads all of a file even when opencode is gone; a pipe ends with opencode.
        const file = fileWith(text)
        let child
        try {
          // A session of its own: it goes on when opencode is gone.
          child = spawn(PROGRAM, ARGUMENTS, {
            cwd: directory,
            detached: true,
            env: { ...process.env, OPENCODE_PID: String(process.pid), RAPPEL_OPENCODE_FOLDER: directory },
            stdio: [file ?? "pipe", "pipe", "ignore"],
          })
        } finally {
          if (file !== undefined) fs.closeSync(file)
        }
        if (file === undefined) {
          child.stdin.on("error", () => {})
          child.stdin.end(text)
        }
        const limit = LIMITS[event] ?? LIMIT
        const tooLong = () => {
          slow = true
          child.stdout.destroy()
          done()
        }
        timer = setTimeout(tooLong, slow ? Math.min(limit, SHORT) : limit)
        child.unref()
        const said = []
        child.on("error", failed)
        child.stdout.on("error", () => done())
        child.stdout.on("data", (piece) => said.push(piece))
        child.stdout.on("end", () => {
          slow = false
          const text = Buffer.concat(said).toString("utf8").trim()
          try {
            done(text ? JSON.parse(text) : {})
          } catch {
            done()
          }
        })
      } catch (error) {
        failed(error)
      }
    })
  }

  /** Something that is asked of opencode itself; nothing if it takes too long. */
  function ask(request) {
    let timer
    const silence = new Promise((resolve) => (timer = setTimeout(resolve, 2000)))
    const answer = Promise.resolve().then(request).catch(() => undefined)
    return Promise.race([answer, silence]).finally(() => clearTimeout(timer))
  }

  function know(info) {
    if (info?.id) sessions.set(info.id, { parent: info.parentID, agent: info.agent })
  }

  /** Whose event it is: the session that the user talks to, and the subagent below it. */
  async function whose(id) {
    const about = { session: id }
    let at = id
    for (let depth = 0; depth < 16; depth++) {
      if (!sessions.has(at)) {
        const answer = await ask(() => client.session.get({ path: { id: at } }))
        know(answer?.data)
        if (!sessions.has(at)) sessions.set(at, {})
      }
      const { parent } = sessions.get(at)
      if (!parent) break
      at = parent
    }
    if (at === id) return about
    return { session: at, subagent: id, agent: sessions.get(id).agent }
  }

  /** Tells once that a session begins, or goes on. */
  function start(id, how) {
    if (!starts.has(id)) {
      const event = how === "new" ? "event.session.created" : "rappel.resumed"
      const answer = tell(event, { session: id }, null, null)
      answer.then(notify)
      starts.set(id, answer)
    }
    return starts.get(id)
  }

  function toast(message, variant) {
    return ask(() => client.tui.showToast({ body: { title: "Rappel", message, variant, duration: 10000 } }))
  }

  function notify(answer) {
    if (!answer.notice) return
    if (isRun) process.stderr.write(`${answer.notice}\n`)
    else toast(answer.notice, "warning")
  }

  /** Shows the answer to a prompt that was for Rappel, and keeps the prompt from the model. */
  async function reply(id, text) {
    if (isRun) {
      await new Promise((resolve) => process.stdout.write(`${text}\n`, resolve))
      await hooks.dispose()
      process.exit(0)
    }
    // It stays in the conversation, and is not sent to the model.
    const parts = [{ type: "text", text, ignored: true }]
    await ask(() => client.session.prompt({ path: { id }, body: { noReply: true, parts } }))
    await toast(text.split("\n").slice(0, 8).join("\n"), "info")
    throw new Answered("Rappel answered this prompt; the model was not asked.")
  }

  /** Puts a text for the model before what the user wrote. opencode orders parts by their ids. */
  function addTo(parts, message, text) {
    const first = parts.map((part) => part.id).filter((id) => /^prt_[0-9a-f]{12}/.test(id ?? "")).sort()[0]
    const before = BigInt(`0x${first?.slice(4, 16) ?? 0}`) - 1n
    if (before < 0n) return false
    const id = `prt_${before.toString(16).padStart(12, "0")}${randomBytes(7).toString("hex")}`
    parts.unshift({ id, sessionID: message.sessionID, messageID: message.id, type: "text", synthetic: true, text })
    return true
  }

  /** Tells of a prompt; what the model should be told with it. */
  async function prompted(about, input, output) {
    const id = input.sessionID
    const begun = await start(id, "resumed")
    const answer = await tell("chat.message", about, input, output)
    if (answer.reply) return await reply(id, answer.reply)
    notify(answer)
    starts.set(id, {})
    return [begun.context, answer.context].filter(Boolean).join("\n\n")
  }

  /** opencode turns to a prompt that was typed while it was at work, and with it to all before; or to all. */
  function turnTo(id, message) {
    const waiting = queued.get(id) ?? []
    const last = message ? waiting.findIndex((one) => one.output.message?.id === message) : waiting.length - 1
    for (const { about, input, output } of waiting.splice(0, last + 1)) {
      const told = (turns.get(id) ?? Promise.resolve()).then(() => prompted(about, input, output))
      // Its message has been taken already.
      turns.set(id, told.then((text) => text && recalls.set(id, text)).catch(() => {}))
    }
    return turns.get(id)
  }

  const hooks = {
    event: async ({ event }) => {
      const { type, properties } = event
      const id = properties?.sessionID ?? properties?.info?.id
      if (type === "session.created" || type === "session.updated") know(properties.info)
      if (type === "session.status" && properties.status?.type !== "idle") busy.add(id)
      if (type === "session.idle" || (type === "session.status" && properties.status?.type === "idle")) {
        busy.delete(id)
        await turnTo(id)
      }
      if (type === "session.created" && !properties.info?.parentID) await start(id, "new")
      else if (type === "session.created" || type === "session.idle") {
        notify(await tell(`event.${type}`, await whose(id), event, null))
      } else if (type === "session.compacted") {
        const answer = whose(id).then((about) => tell("event.session.compacted", about, event, null))
        answer.then(notify)
        recalls.set(id, answer.then((answer) => answer.context))
      } else if (type === "session.deleted") {
        const about = await whose(id)
        starts.delete(id)
        await tell("event.session.deleted", about, event, null)
      } else if (type === "message.updated") {
        const { info } = properties
        if (info?.role === "assistant" && info.parentID) turnTo(info.sessionID, info.parentID)
      } else if (type === "message.part.updated") {
        const { part } = properties
        if (part?.type !== "tool" || part.state?.status !== "error" || !calls.delete(part.callID)) return
        const input = { tool: part.tool, sessionID: part.sessionID, callID: part.callID, args: part.state.input }
        notify(await tell("rappel.tool.error", await whose(part.sessionID), input, { error: part.state.error }))
      }
    },

    "chat.message": async (input, output) => {
      const id = input.sessionID
      const { message, parts } = output
      // What Rappel itself puts there.
      if (parts.length > 0 && parts.every((part) => part.ignored)) return
      const about = await whose(id)
      if (about.subagent) return
      // The work of the prompt before it still goes on: this one begins when opencode turns to it.
      if (busy.has(id) && !parts.some((part) => TYPED.test(part.text ?? ""))) {
        if (!queued.has(id)) queued.set(id, [])
        queued.get(id).push({ about, input, output })
        return
      }
      const told = await prompted(about, input, output)
      if (told && !addTo(parts, message, told)) recalls.set(id, told)
    },

    "command.execute.before": async (input) => {
      if (!COMMAND.test(input.command)) return
      const about = await whose(input.sessionID)
      await start(about.session, "resumed")
      const answer = await tell("command.execute.before", about, input, null)
      if (answer.reply) await reply(input.sessionID, answer.reply)
      notify(answer)
    },

    "tool.execute.before": async (input, output) => {
      if (READERS.test(input.tool)) return
      const about = await whose(input.sessionID)
      await turns.get(about.session)
      calls.set(input.callID, "")
      const answer = await tell("tool.execute.before", about, input, output)
      notify(answer)
      if (answer.context && calls.has(input.callID)) calls.set(input.callID, answer.context)
    },

    "tool.execute.after": async (input, output) => {
      if (!calls.has(input.callID)) return
      const before = calls.get(input.callID)
      calls.delete(input.callID)
      const answer = await tell("tool.execute.after", await whose(input.sessionID), input, output)
      notify(answer)
      const text = [before, answer.context].filter(Boolean).join("\n\n")
      if (!text) return
      if (typeof output?.output === "string") output.output += `\n\n${text}`
      else if (Array.isArray(output?.content)) output.content.push({ type: "text", text })
    },

    "experimental.session.compacting": async (input) => {
      notify(await tell("experimental.session.compacting", await whose(input.sessionID), input, null))
    },

    "experimental.chat.system.transform": async (input, output) => {
      const text = await recalls.get(input.sessionID)
      if (text) output.system.push(text)
    },

    "shell.env": async (input, output) => {
      if (input.sessionID) output.env.RAPPEL_OPENCODE_SESSION = input.sessionID
    },

    dispose: async () => {
      const roots = [...starts.keys()]
      starts.clear()
      await Promise.all(roots.map((id) => tell("rappel.disposed", { session: id }, null, null)))
    },
  }

  for (const [name, hook] of Object.entries(hooks)) {
    hooks[name] = async (...given) => {
      try {
        return await hook(...given)
      } catch (error) {
        if (error instanceof Answered) throw error
      }
    }
  }
  return hooks
}

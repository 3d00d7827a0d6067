// A small app on Slack's own SDK. MODE says how events reach it: socket or http. It says on its standard output where it
// listens, or that it is connected, and does one of each thing that apps do.
"use strict";

const { App, LogLevel } = require("@slack/bolt");

const { MODE, API_URL, BOT_TOKEN, APP_TOKEN, SIGNING_SECRET } = process.env;
const socketMode = MODE === "socket";

const app = new App({
  token: BOT_TOKEN,
  ...(socketMode ? { appToken: APP_TOKEN, socketMode: true } : { signingSecret: SIGNING_SECRET }),
  clientOptions: { slackApiUrl: API_URL, retryConfig: { retries: 0 } },
  logLevel: LogLevel.WARN,
});

app.event("app_mention", async ({ event, client, context }) => {
  const thread_ts = event.thread_ts || event.ts;
  const posted = await client.chat.postMessage({ channel: event.channel, thread_ts, text: "working" });
  await client.chat.update({
    channel: event.channel,
    ts: posted.ts,
    text: "press",
    blocks: [
      {
        type: "actions",
        elements: [{ type: "button", action_id: "open", value: "v1", text: { type: "plain_text", text: "Open" } }],
      },
    ],
  });
  const stream = client.chatStream({
    channel: event.channel,
    thread_ts,
    recipient_team_id: context.teamId,
    recipient_user_id: event.user,
    buffer_size: 4,
  });
  for (const word of ["**one** ", "two ", "three"]) {
    await stream.append({ markdown_text: word });
  }
  await stream.stop({
    chunks: [{ type: "task_update", id: "t1", title: "counted", status: "complete" }],
    metadata: { event_type: "counted", event_payload: { words: 3 } },
  });
});

app.action("open", async ({ ack, body, action, client }) => {
  await ack();
  await client.views.open({
    trigger_id: body.trigger_id,
    view: {
      type: "modal",
      callback_id: "form",
      title: { type: "plain_text", text: "Form " + action.value },
      submit: { type: "plain_text", text: "Send" },
      blocks: [
        {
          type: "input",
          block_id: "name",
          label: { type: "plain_text", text: "Name" },
          element: { type: "plain_text_input", action_id: "it" },
        },
      ],
    },
  });
});

app.view("form", async ({ ack, view }) => {
  const name = view.state.values.name.it.value;
  if (name.length < 3) {
    await ack({ response_action: "errors", errors: { name: "too short" } });
    return;
  }
  await ack({ response_action: "update", view: { type: "modal", title: { type: "plain_text", text: "Thanks " + name }, blocks: [] } });
});

app.command("/count", async ({ ack, command, respond }) => {
  await ack({ text: "counting " + command.text });
  await respond({ text: "counted " + command.text, response_type: "in_channel" });
});

app.event("app_home_opened", async ({ event, client }) => {
  await client.views.publish({
    user_id: event.user,
    view: { type: "home", blocks: [{ type: "section", text: { type: "mrkdwn", text: "Hello <@" + event.user + ">" } }] },
  });
});

(async () => {
  const server = await app.start(0);
  console.log(socketMode ? "ready" : "ready http://127.0.0.1:" + server.address().port + "/slack/events");
})().catch((err) => {
  console.error(err);
  process.exit(1);
});

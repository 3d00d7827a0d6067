// The shortcodes that people and bots use most. Others stay as typed.

const signs = {
  smile: "😄", grinning: "😀", joy: "😂", rofl: "🤣", slightly_smiling_face: "🙂", wink: "😉", blush: "😊", heart_eyes: "😍",
  thinking_face: "🤔", neutral_face: "😐", sweat_smile: "😅", cry: "😢", sob: "😭", scream: "😱", angry: "😠", sunglasses: "😎",
  "+1": "👍", thumbsup: "👍", "-1": "👎", thumbsdown: "👎", clap: "👏", wave: "👋", pray: "🙏", raised_hands: "🙌", muscle: "💪",
  ok_hand: "👌", point_right: "👉", eyes: "👀", heart: "❤️", broken_heart: "💔", fire: "🔥", tada: "🎉", sparkles: "✨", star: "⭐",
  rocket: "🚀", bulb: "💡", bell: "🔔", lock: "🔒", key: "🔑", gear: "⚙️", wrench: "🔧", mag: "🔍", memo: "📝", calendar: "📅",
  chart_with_upwards_trend: "📈", bar_chart: "📊", package: "📦", robot_face: "🤖", bug: "🐛", white_check_mark: "✅",
  heavy_check_mark: "✔️", x: "❌", warning: "⚠️", no_entry: "⛔", question: "❓", exclamation: "❗", information_source: "ℹ️",
  hourglass: "⌛", hourglass_flowing_sand: "⏳", stopwatch: "⏱️", arrow_right: "➡️", arrow_up: "⬆️", arrow_down: "⬇️",
  one: "1️⃣", two: "2️⃣", three: "3️⃣", coffee: "☕", pizza: "🍕", soccer: "⚽", trophy: "🏆", "100": "💯", speech_balloon: "💬", link: "🔗",
};

// emoji gives the sign of a shortcode, or undefined.
export function emoji(name) {
  return Object.hasOwn(signs, name) ? signs[name] : undefined;
}

// like gives the shortcodes that begin with some letters.
export function like(start) {
  return Object.keys(signs).filter((n) => n.startsWith(start)).slice(0, 6).map((n) => [n, signs[n]]);
}

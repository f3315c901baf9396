//! `usage.cost` and `sessions.usage`: what was used, added up from the transcripts.

mod waits;

use std::collections::BTreeMap;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_file::Sound;
use clawpen_engine::session_entries::{Entry, Message, MessageKind, Sessions};
use clawpen_rules::ids::AgentId;
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::{ErrorShape, params};
use serde_json::{Map, Value, json};

use super::{agents, optional};
use crate::shared::{Shared, unavailable};
use waits::{Figures, Waits};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const DAYS: u64 = 30;
const MOST_DAYS: u64 = 366;
const LISTED: u64 = 50;

/// What was used, in tokens and money.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sums {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    tokens: u64,
    cost: [f64; 4],
    total_cost: f64,
    /// Answers without a price.
    unpriced: u64,
}

impl Sums {
    fn add(&mut self, usage: &Value) {
        let number = |key: &str| usage[key].as_u64().unwrap_or_default();
        let price = |key: &str| usage["cost"][key].as_f64().unwrap_or_default();
        let parts = [number("input"), number("output"), number("cacheRead"), number("cacheWrite")];
        self.input += parts[0];
        self.output += parts[1];
        self.cache_read += parts[2];
        self.cache_write += parts[3];
        self.tokens += usage["totalTokens"].as_u64().unwrap_or_else(|| parts.iter().sum());
        for (sum, key) in self.cost.iter_mut().zip(["input", "output", "cacheRead", "cacheWrite"]) {
            *sum += price(key);
        }
        self.total_cost += price("total");
        self.unpriced += u64::from(!usage["cost"].is_object());
    }

    fn merge(&mut self, other: &Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.tokens += other.tokens;
        for (sum, more) in self.cost.iter_mut().zip(other.cost) {
            *sum += more;
        }
        self.total_cost += other.total_cost;
        self.unpriced += other.unpriced;
    }

    fn shown(&self) -> Map<String, Value> {
        let [input, output, read, write] = self.cost;
        let mut shown = Map::new();
        for (key, value) in [
            ("input", self.input),
            ("output", self.output),
            ("cacheRead", self.cache_read),
            ("cacheWrite", self.cache_write),
            ("totalTokens", self.tokens),
        ] {
            shown.insert(key.into(), json!(value));
        }
        for (key, value) in [
            ("totalCost", self.total_cost),
            ("inputCost", input),
            ("outputCost", output),
            ("cacheReadCost", read),
            ("cacheWriteCost", write),
        ] {
            shown.insert(key.into(), json!(value));
        }
        shown.insert("missingCostEntries".into(), json!(self.unpriced));
        shown
    }
}

/// What happened in one session.
#[derive(Debug, Default)]
struct Tally {
    sums: Sums,
    days: BTreeMap<String, (Sums, Counts)>,
    counts: Counts,
    tools: BTreeMap<String, u64>,
    models: ByModel,
    waits: Waits,
    day_waits: BTreeMap<String, Waits>,
    first_ms: Option<u64>,
    last_ms: Option<u64>,
}

/// Which tools were called, the most used first.
fn tools_shown(tools: &BTreeMap<String, u64>) -> Value {
    let calls: u64 = tools.values().sum();
    let mut listed: Vec<(&String, &u64)> = tools.iter().collect();
    listed.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let listed: Vec<Value> =
        listed.into_iter().map(|(name, count)| json!({ "name": name, "count": count })).collect();
    json!({ "totalCalls": calls, "uniqueTools": listed.len(), "tools": listed })
}

/// The dearest first, then the one that took most.
fn dearest_first(shown: &mut [Value]) {
    let price = |value: &Value| value["totals"]["totalCost"].as_f64().unwrap_or_default();
    let tokens = |value: &Value| value["totals"]["totalTokens"].as_u64().unwrap_or_default();
    shown.sort_by(|a, b| price(b).total_cmp(&price(a)).then(tokens(b).cmp(&tokens(a))));
}

/// A provider and one of its models.
type ModelName = (String, String);
/// How often a model answered on a day, and what that took.
type ByModel = BTreeMap<(String, ModelName), (u64, Sums)>;

/// Adds up by something.
fn grouped<K: Ord>(
    models: &ByModel,
    by: impl Fn(&(String, ModelName)) -> K,
) -> BTreeMap<K, (u64, Sums)> {
    let mut groups: BTreeMap<K, (u64, Sums)> = BTreeMap::new();
    for (key, (answers, sums)) in models {
        let (count, all) = groups.entry(by(key)).or_default();
        *count += answers;
        all.merge(sums);
    }
    groups
}

/// What each model took.
fn by_model(models: &ByModel) -> Vec<Value> {
    let groups = grouped(models, |(_, model)| model.clone());
    let shown = groups.into_iter().map(|((provider, model), (count, sums))| {
        json!({ "provider": provider, "model": model, "count": count, "totals": sums.shown() })
    });
    let mut shown: Vec<Value> = shown.collect();
    dearest_first(&mut shown);
    shown
}

fn by_provider(models: &ByModel) -> Vec<Value> {
    let groups = grouped(models, |(_, (provider, _))| provider.clone());
    let shown = groups.into_iter().map(|(provider, (count, sums))| {
        json!({ "provider": provider, "count": count, "totals": sums.shown() })
    });
    let mut shown: Vec<Value> = shown.collect();
    dearest_first(&mut shown);
    shown
}

/// What each model took on each day.
fn model_days(models: &ByModel) -> Vec<Value> {
    let shown = models.iter().map(|((day, (provider, model)), (count, sums))| {
        json!({ "date": day, "provider": provider, "model": model, "tokens": sums.tokens,
                "cost": sums.total_cost, "count": count })
    });
    shown.collect()
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    user: u64,
    assistant: u64,
    calls: u64,
    results: u64,
    errors: u64,
}

impl Counts {
    fn merge(&mut self, other: Self) {
        self.user += other.user;
        self.assistant += other.assistant;
        self.calls += other.calls;
        self.results += other.results;
        self.errors += other.errors;
    }

    fn shown(self) -> Value {
        json!({
            "total": self.user + self.assistant,
            "user": self.user,
            "assistant": self.assistant,
            "toolCalls": self.calls,
            "toolResults": self.results,
            "errors": self.errors,
        })
    }
}

/// Whole days, in somebody's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Days {
    /// Since 1970, there.
    first: i64,
    last: i64,
    /// How far that clock is ahead of UTC.
    ahead_ms: i64,
}

impl Days {
    /// The days that are asked for, else the last thirty.
    fn of(params: &Value, now: u64) -> Self {
        let ahead = match (optional(params, "mode"), optional(params, "utcOffset")) {
            (Some("specific"), Some(offset)) => params::utc_offset(offset).unwrap_or_default(),
            _ => 0,
        };
        let ahead_ms = ahead * 60_000;
        let date = |key: &str| optional(params, key).and_then(number_of_day);
        if let (Some(first), Some(last)) = (date("startDate"), date("endDate")) {
            return Self { first, last, ahead_ms };
        }
        let days = params["days"].as_u64().unwrap_or(DAYS).clamp(1, MOST_DAYS);
        let days = i64::try_from(days).unwrap_or(1);
        let last = Self::number(now, ahead_ms);
        Self { first: last - days + 1, last, ahead_ms }
    }

    fn number(ms: u64, ahead_ms: i64) -> i64 {
        (i64::try_from(ms).unwrap_or(i64::MAX).saturating_add(ahead_ms)).div_euclid(DAY_MS)
    }

    /// The day of a moment, if it is one of these.
    fn day(self, ms: u64) -> Option<String> {
        let number = Self::number(ms, self.ahead_ms);
        (self.first..=self.last).contains(&number).then(|| date(number))
    }

    /// Counted as the reference counts: one more than there are.
    fn count(self) -> i64 {
        (self.last - self.first + 2).max(1)
    }
}

/// `2026-11-16` of a number of days.
fn date(day: i64) -> String {
    let ms = u64::try_from(day.saturating_mul(DAY_MS)).unwrap_or_default();
    let text = Timestamp::from_millis(ms).to_string();
    text.get(..10).unwrap_or_default().to_owned()
}

/// The number of a day since 1970; a month or a day too many runs over into the next.
fn number_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(0..=9999).contains(&year) {
        return None;
    }
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12));
    // Years that begin in March end with the day that comes every four years.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leaps + (month * 153 + 2) / 5 + day - 1 - 719_468)
}

fn tally(messages: &[Message], days: Days) -> Tally {
    let mut tally = Tally::default();
    let mut asked = None;
    for message in messages.iter().filter(|message| message.kind == MessageKind::Said) {
        let body = &message.body;
        let said = || body.get("timestamp").and_then(Value::as_u64);
        let time = message.written.or_else(said).unwrap_or_default();
        let Some(day) = days.day(time) else { continue };
        tally.first_ms = Some(tally.first_ms.map_or(time, |first| first.min(time)));
        tally.last_ms = tally.last_ms.max(Some(time));
        let mut counts = Counts::default();
        let role = body.get("role").and_then(Value::as_str).unwrap_or_default();
        match role {
            "user" => {
                counts.user = 1;
                asked = Some(time);
            }
            "assistant" => {
                counts.assistant = 1;
                tally.waits.note(asked, time);
                tally.day_waits.entry(day.clone()).or_default().note(asked, time);
                let stop = body.get("stopReason").and_then(Value::as_str);
                counts.errors = u64::from(matches!(stop, Some("error" | "aborted" | "timeout")));
                let blocks = body.get("content").and_then(Value::as_array).into_iter().flatten();
                for call in blocks.filter(|block| block["type"] == "toolCall") {
                    counts.calls += 1;
                    let name = call["name"].as_str().unwrap_or("unknown").to_owned();
                    *tally.tools.entry(name).or_default() += 1;
                }
            }
            "toolResult" => {
                counts.results = 1;
                counts.errors = u64::from(body.get("isError") == Some(&json!(true)));
            }
            _ => {}
        }
        let (sums, of_day) = tally.days.entry(day.clone()).or_default();
        of_day.merge(counts);
        tally.counts.merge(counts);
        if let Some(usage) = body.get("usage").filter(|_| role == "assistant") {
            sums.add(usage);
            tally.sums.add(usage);
            let word = |key: &str| body.get(key).and_then(Value::as_str);
            let (provider, model) = (word("provider"), word("model"));
            if provider.is_some() || model.is_some() {
                let name = |word: Option<&str>| word.unwrap_or("unknown").to_owned();
                let key = (day, (name(provider), name(model)));
                let (answers, of_model) = tally.models.entry(key).or_default();
                *answers += 1;
                of_model.add(usage);
            }
        }
    }
    tally
}

struct Of {
    agent: AgentId,
    key: String,
    entry: Entry,
    file: String,
    tally: Tally,
}

fn all(sound: &Sound, days: Days, only: Option<&str>) -> Result<Vec<Of>, ErrorShape> {
    let config = &sound.store.loaded.config;
    let mut found = Vec::new();
    for agent in agents::with_state(sound) {
        let sessions = Sessions::at(&sound.store.locations.session_store(config, &agent));
        for (key, entry) in sessions.read().map_err(|error| unavailable(&error))? {
            if only.is_some_and(|only| only != key) {
                continue;
            }
            let id = entry.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            // What has no transcript used nothing.
            let Some(file) = sessions.transcript(id).filter(|path| path.is_file()) else {
                continue;
            };
            let file = file.to_string_lossy().into_owned();
            let messages = sessions.messages(id).unwrap_or_default();
            let tally = tally(&messages, days);
            found.push(Of { agent: agent.clone(), key, entry, file, tally });
        }
    }
    Ok(found)
}

/// What was spent, by day.
pub(crate) fn cost(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let now = now_ms();
    let days = Days::of(params, now);
    let mut daily: BTreeMap<String, Sums> = BTreeMap::new();
    let mut totals = Sums::default();
    for one in all(&sound, days, None)? {
        totals.merge(&one.tally.sums);
        for (day, (sums, _)) in one.tally.days {
            daily.entry(day).or_default().merge(&sums);
        }
    }
    let used = daily.into_iter().filter(|(_, sums)| *sums != Sums::default());
    let daily: Vec<Value> = used.map(|(day, sums)| dated(&day, sums.shown())).collect();
    Ok(json!({ "updatedAt": now, "days": days.count(), "daily": daily, "totals": totals.shown() }))
}

fn dated(day: &str, rest: Map<String, Value>) -> Value {
    let mut shown = Map::new();
    shown.insert("date".into(), json!(day));
    shown.extend(rest);
    Value::Object(shown)
}

/// What each session used.
pub(crate) fn sessions(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let now = now_ms();
    let days = Days::of(params, now);
    let key = optional(params, "key").map(str::trim).filter(|key| !key.is_empty());
    let mut found = all(&sound, days, key)?;
    found.sort_by_key(|one| std::cmp::Reverse(one.entry.get("updatedAt").and_then(Value::as_u64)));
    let limit = params["limit"].as_u64().unwrap_or(LISTED);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let (mut totals, mut counts) = (Sums::default(), Counts::default());
    let mut by_agent: Vec<(String, Sums)> = Vec::new();
    let mut tools: BTreeMap<String, u64> = BTreeMap::new();
    let mut daily: BTreeMap<String, (Sums, Counts)> = BTreeMap::new();
    let mut models = ByModel::new();
    let mut channels: BTreeMap<String, Sums> = BTreeMap::new();
    let (waits, day_waits) = all_waits(&found);
    for one in &found {
        for (key, (answers, sums)) in &one.tally.models {
            let (count, all) = models.entry(key.clone()).or_default();
            *count += answers;
            all.merge(sums);
        }
        if let Some(channel) = channel(&one.entry) {
            channels.entry(channel.to_owned()).or_default().merge(&one.tally.sums);
        }
        totals.merge(&one.tally.sums);
        counts.merge(one.tally.counts);
        let name = one.agent.as_str();
        match by_agent.iter_mut().find(|(agent, _)| agent == name) {
            Some((_, sums)) => sums.merge(&one.tally.sums),
            None => by_agent.push((name.to_owned(), one.tally.sums.clone())),
        }
        for (tool, count) in &one.tally.tools {
            *tools.entry(tool.clone()).or_default() += count;
        }
        for (day, (sums, of_day)) in &one.tally.days {
            let (all, counts) = daily.entry(day.clone()).or_default();
            all.merge(sums);
            counts.merge(*of_day);
        }
    }
    let by_agent: Vec<Value> = by_agent
        .into_iter()
        .map(|(agent, sums)| json!({ "agentId": agent, "totals": sums.shown() }))
        .collect();
    let daily: Vec<Value> = daily
        .into_iter()
        .map(|(day, (sums, counts))| {
            json!({ "date": day, "tokens": sums.tokens, "cost": sums.total_cost,
                    "messages": counts.user + counts.assistant, "toolCalls": counts.calls,
                    "errors": counts.errors })
        })
        .collect();
    let mut answer = json!({
        "updatedAt": now,
        "startDate": date(days.first),
        "endDate": date(days.last),
        "sessions": found.iter().map(|one| row(one, params)).collect::<Vec<_>>(),
        "totals": totals.shown(),
        "aggregates": {
            "messages": counts.shown(),
            "tools": tools_shown(&tools),
            "byModel": by_model(&models),
            "byProvider": by_provider(&models),
            "byAgent": by_agent,
            "byChannel": channels
                .iter()
                .map(|(channel, sums)| json!({ "channel": channel, "totals": sums.shown() }))
                .collect::<Vec<_>>(),
            "dailyLatency": day_waits,
            "modelDaily": model_days(&models),
            "daily": daily,
        },
    });
    if let Some(waits) = waits {
        answer["aggregates"]["latency"] = Value::Object(waits.shown());
    }
    Ok(answer)
}

/// How long answers took in all sessions, and on each day.
fn all_waits(found: &[Of]) -> (Option<Figures>, Vec<Value>) {
    let mut waits = None;
    let mut days: BTreeMap<&str, Figures> = BTreeMap::new();
    for one in found {
        if let Some(figures) = one.tally.waits.figures() {
            waits = Some(Figures::merge(waits, figures));
        }
        for (day, figures) in day_figures(&one.tally) {
            let all = days.get(day).copied();
            days.insert(day, Figures::merge(all, figures));
        }
    }
    (waits, days.into_iter().map(|(day, figures)| dated(day, figures.shown())).collect())
}

/// How long answers took on each day.
fn day_figures(tally: &Tally) -> impl Iterator<Item = (&str, Figures)> {
    tally.day_waits.iter().filter_map(|(day, waits)| Some((day.as_str(), waits.figures()?)))
}

/// Where a session is held.
fn channel(entry: &Entry) -> Option<&str> {
    let word = |key: &str| entry.get(key).and_then(Value::as_str);
    let origin = || entry.get("origin").and_then(|origin| origin["provider"].as_str());
    word("channel").or_else(origin)
}

fn row(one: &Of, params: &Value) -> Value {
    let mut row = Map::new();
    row.insert("key".into(), json!(one.key));
    row.extend(one.entry.get("label").map(|label| ("label".to_owned(), label.clone())));
    for key in ["sessionId", "updatedAt"] {
        row.extend(one.entry.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    row.insert("agentId".into(), json!(one.agent.as_str()));
    row.extend(channel(&one.entry).map(|channel| ("channel".to_owned(), json!(channel))));
    for key in ["chatType", "origin", "modelOverride", "providerOverride", "modelProvider", "model"]
    {
        row.extend(one.entry.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let days = &one.tally.days;
    let mut usage = Map::new();
    usage.extend(one.entry.get("sessionId").map(|id| ("sessionId".to_owned(), id.clone())));
    usage.insert("sessionFile".into(), json!(one.file));
    usage.insert("activityDates".into(), json!(days.keys().collect::<Vec<_>>()));
    let used = days.iter().filter(|(_, (sums, _))| *sums != Sums::default());
    let spent = used.map(
        |(day, (sums, _))| json!({ "date": day, "tokens": sums.tokens, "cost": sums.total_cost }),
    );
    usage.insert("dailyBreakdown".into(), spent.collect());
    let said = days.iter().map(|(day, (_, counts))| match counts.shown() {
        Value::Object(counts) => dated(day, counts),
        other => other,
    });
    usage.insert("dailyMessageCounts".into(), said.collect());
    usage.insert("messageCounts".into(), one.tally.counts.shown());
    if let (Some(first), Some(last)) = (one.tally.first_ms, one.tally.last_ms) {
        usage.insert("firstActivity".into(), json!(first));
        usage.insert("lastActivity".into(), json!(last));
        usage.insert("durationMs".into(), json!(last.saturating_sub(first)));
    }
    if !one.tally.models.is_empty() {
        usage.insert("modelUsage".into(), json!(by_model(&one.tally.models)));
        usage.insert("dailyModelUsage".into(), json!(model_days(&one.tally.models)));
    }
    if !one.tally.tools.is_empty() {
        usage.insert("toolUsage".into(), tools_shown(&one.tally.tools));
    }
    if let Some(figures) = one.tally.waits.figures() {
        usage.insert("latency".into(), Value::Object(figures.shown()));
    }
    let waits: Vec<Value> =
        day_figures(&one.tally).map(|(day, figures)| dated(day, figures.shown())).collect();
    if !waits.is_empty() {
        usage.insert("dailyLatency".into(), json!(waits));
    }
    usage.extend(one.tally.sums.shown());
    row.insert("usage".into(), Value::Object(usage));
    if params["includeContextWeight"] == json!(true) {
        let report = one.entry.get("systemPromptReport").cloned();
        row.insert("contextWeight".into(), report.unwrap_or_default());
    }
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_added_up_by_day() {
        let message = |body: Value| Message {
            id: String::new(),
            body: body.as_object().cloned().unwrap(),
            written: None,
            kind: MessageKind::Said,
        };
        let usage =
            json!({ "input": 10, "output": 5, "totalTokens": 15, "cost": { "total": 0.5 } });
        let days = Days { first: 1, last: 2, ahead_ms: 0 };
        let found = tally(
            &[
                message(json!({ "role": "user", "timestamp": 1 })),
                message(json!({ "role": "user", "timestamp": DAY_MS })),
                message(json!({ "role": "assistant", "timestamp": DAY_MS + 1, "usage": usage,
                    "model": "m", "content": [{ "type": "toolCall", "name": "exec" }] })),
                message(json!({ "role": "toolResult", "timestamp": DAY_MS + 2, "isError": true })),
                message(json!({ "role": "user", "timestamp": 3 * DAY_MS })),
            ],
            days,
        );
        assert_eq!((found.sums.tokens, found.sums.total_cost), (15, 0.5));
        assert_eq!(found.days.keys().collect::<Vec<_>>(), ["1970-01-02"]);
        assert_eq!(found.counts, Counts { user: 1, assistant: 1, calls: 1, results: 1, errors: 1 });
        assert_eq!(found.tools["exec"], 1);
        let model = &by_model(&found.models)[0];
        assert_eq!((&model["provider"], &model["count"]), (&json!("unknown"), &json!(1)));
        assert_eq!(model_days(&found.models)[0]["date"], "1970-01-02");
        let waits = found.waits.figures().unwrap().shown();
        assert_eq!((&waits["count"], &waits["maxMs"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn days_are_those_that_are_asked_for() {
        // 2026-11-16, at noon.
        let now = 1_794_830_400_000;
        for (params, expected) in [
            (json!({}), ("2026-10-18", "2026-11-16", 31)),
            (json!({ "days": 1 }), ("2026-11-16", "2026-11-16", 2)),
            (json!({ "days": 0 }), ("2026-11-16", "2026-11-16", 2)),
            (json!({ "days": "x" }), ("2026-10-18", "2026-11-16", 31)),
            (
                json!({ "startDate": "2026-11-01", "endDate": "2026-11-16" }),
                ("2026-11-01", "2026-11-16", 17),
            ),
            (json!({ "startDate": "2026-11-01" }), ("2026-10-18", "2026-11-16", 31)),
            (
                json!({ "startDate": "2024-02-29", "endDate": "2024-02-30" }),
                ("2024-02-29", "2024-03-01", 3),
            ),
            (
                json!({ "days": 1, "mode": "specific", "utcOffset": "UTC+13" }),
                ("2026-11-17", "2026-11-17", 2),
            ),
        ] {
            let days = Days::of(&params, now);
            let found = (date(days.first), date(days.last), days.count());
            assert_eq!((found.0.as_str(), found.1.as_str(), found.2), expected, "{params}");
        }
    }
}

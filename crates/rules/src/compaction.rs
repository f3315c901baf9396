//! Decides when a talk has grown too long for its model, and how much of its end is kept as it is.
//!
//! Takes the size of each message in tokens, roughly; gives where to cut. A call and its result are never separated.

/// Kept free for the answer and for what is counted too low.
const RESERVE: u64 = 20_000;
/// Of the newest messages so much stays as it is.
const KEEP: u64 = 20_000;
/// Characters of one tool's answer, whatever the model takes.
const RESULT_CHARS: u64 = 400_000;
/// Of an answer that is cut, so much of its end stays: that is where commands say what went wrong.
const RESULT_TAIL: usize = 2_000;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub tokens: u64,
    pub joint: Joint,
}

/// Whether a talk may begin with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    May,
    /// It answers what stands before it.
    MayNot,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    Fits,
    /// Messages before this one are summed up.
    Cut {
        keep_from: usize,
    },
    /// Nothing can be taken away: even the newest message is too long.
    Impossible,
}

/// Why it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Only if our count says so.
    IfTooLong,
    /// The model said that it was too long, or a person wants it.
    Now,
}

/// Decides for a model that takes `window` tokens, of which `fixed` go to instructions and tools.
#[must_use]
pub fn decide(messages: &[Size], fixed: u64, window: u64, need: Need) -> Compaction {
    let all: u64 = messages.iter().map(|message| message.tokens).sum::<u64>().saturating_add(fixed);
    let room = window.saturating_sub(RESERVE.min(window / 4));
    if need == Need::IfTooLong && all <= room {
        return Compaction::Fits;
    }
    let keep = KEEP.min(room.saturating_sub(fixed.min(room)) / 2);
    let mut kept: u64 = 0;
    let mut cut = None;
    for (index, message) in messages.iter().enumerate().rev() {
        kept = kept.saturating_add(message.tokens);
        // The newest question stays, however long.
        if kept > keep && cut.is_some() {
            break;
        }
        if message.joint == Joint::May {
            cut = Some(index);
        }
    }
    match cut {
        Some(0) | None => Compaction::Impossible,
        Some(keep_from) => Compaction::Cut { keep_from },
    }
}

/// Tokens of a text, roughly: a third of its bytes is too many for English and about right for the rest.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Tokens of an image.
pub const IMAGE_TOKENS: u64 = 1_500;

/// A tool's answer, cut to what a model of this window should be given of one.
pub fn fit_result(text: &str, window: u64) -> Option<String> {
    let most = (window.saturating_mul(4) / 10 * 3).clamp(2_000, RESULT_CHARS);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if text.len() <= most {
        return None;
    }
    let mut head = most.saturating_sub(RESULT_TAIL);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - RESULT_TAIL.min(text.len() - head);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let (head, tail, left) = (&text[..head], &text[tail..], tail - head);
    Some(format!("{head}\n[… {left} bytes left out; ask for a smaller part …]\n{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(tokens: u64) -> Size {
        Size { tokens, joint: Joint::May }
    }

    fn result(tokens: u64) -> Size {
        Size { tokens, joint: Joint::MayNot }
    }

    #[test]
    fn a_talk_is_cut_where_it_may_begin_and_its_end_stays() {
        let check = |messages: &[Size], window, need, expected| {
            assert_eq!(decide(messages, 1_000, window, need), expected);
        };
        check(&[user(10), user(10)], 100_000, Need::IfTooLong, Compaction::Fits);
        check(&[user(10), user(10)], 100_000, Need::Now, Compaction::Impossible);
        let long = [user(70_000), user(10_000), result(5_000), user(3_000)];
        check(&long, 100_000, Need::IfTooLong, Compaction::Cut { keep_from: 1 });
        // The call stays with its result.
        let joined = [user(70_000), user(15_000), result(15_000)];
        check(&joined, 100_000, Need::IfTooLong, Compaction::Cut { keep_from: 1 });
        check(&[user(200_000)], 100_000, Need::IfTooLong, Compaction::Impossible);
        check(
            &[user(3_000), user(4_000)],
            8_000,
            Need::IfTooLong,
            Compaction::Cut { keep_from: 1 },
        );
    }

    #[test]
    fn an_answer_keeps_its_head_and_its_end() {
        assert_eq!(fit_result("short", 8_000), None);
        let text = format!("{}{}", "ä".repeat(20_000), "the end");
        let cut = fit_result(&text, 8_000).unwrap();
        assert!(cut.len() < 10_000 && cut.starts_with('ä') && cut.ends_with("the end"));
    }
}

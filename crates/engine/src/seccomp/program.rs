//! Turns groups of calls into a program for the kernel (classic BPF).
//!
//! The numbers of all calls are cut into ranges that share one rule, and a binary search finds the
//! range: about nine comparisons for any call instead of three hundred.

use super::{Call, Case, Group, Rule, Test, UNKNOWN, Verdict};

/// One instruction, laid out as the kernel's `sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub value: u32,
}

/// A filter, ready to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

/// The kernel takes no longer ones.
#[cfg(test)]
pub(super) const MAX_INSTRUCTIONS: usize = 4096;

const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

// Offsets in the kernel's `seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

#[cfg(target_arch = "x86_64")]
const THIS_ARCHITECTURE: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const THIS_ARCHITECTURE: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64

/// All calls from `first` up to the next range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    rule: Rule,
}

impl Program {
    /// Compiles groups; of two groups that name the same call, the first counts.
    pub(super) fn compile(groups: &[Group]) -> Self {
        let mut code = vec![
            load(ARCHITECTURE),
            Instruction { code: JUMP_IF_EQUAL, if_true: 1, if_false: 0, value: THIS_ARCHITECTURE },
            answer(Verdict::Kill),
            load(NUMBER),
        ];
        code.extend(search(&ranges(groups)));
        Self(code)
    }

    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// The program as bytes: eight per instruction, in this machine's order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 8);
        for instruction in &self.0 {
            let Instruction { code, if_true, if_false, value } = *instruction;
            bytes.extend_from_slice(&code.to_ne_bytes());
            bytes.extend_from_slice(&[if_true, if_false]);
            bytes.extend_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

/// Cuts all numbers into ranges of one rule each. The numbers of the x32 entries (bit 30) lie above
/// every named call and so in the last, unknown range.
fn ranges(groups: &[Group]) -> Vec<Range> {
    let mut calls: Vec<(u32, Rule)> = Vec::new();
    for group in groups {
        for Call { number, .. } in group.calls {
            if calls.iter().all(|(known, _)| known != number) {
                calls.push((*number, group.rule));
            }
        }
    }
    calls.sort_unstable_by_key(|(number, _)| *number);
    let unknown = Rule::Always(UNKNOWN);
    let mut ranges = vec![Range { first: 0, rule: unknown }];
    let mut next = 0;
    let mut push = |first: u32, rule: Rule| match ranges.last_mut() {
        Some(last) if last.rule == rule => {}
        Some(last) if last.first == first => last.rule = rule,
        Some(_) | None => ranges.push(Range { first, rule }),
    };
    for (number, rule) in calls {
        if number > next {
            push(next, unknown);
        }
        push(number, rule);
        next = number.saturating_add(1);
    }
    push(next, unknown);
    ranges
}

/// Finds the range of the loaded number, then applies its rule.
fn search(ranges: &[Range]) -> Vec<Instruction> {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    let Some(middle) = right.first() else { return vec![answer(UNKNOWN)] };
    if left.is_empty() {
        return apply(middle.rule);
    }
    let (left, right) = (search(left), search(right));
    let mut code = match u8::try_from(left.len()) {
        Ok(over) => vec![at_least(middle.first, over, 0)],
        // Too far for a conditional jump: a plain one goes any distance.
        Err(_) => vec![at_least(middle.first, 0, 1), jump(left.len())],
    };
    code.extend(left);
    code.extend(right);
    code
}

fn apply(rule: Rule) -> Vec<Instruction> {
    match rule {
        Rule::Always(verdict) => vec![answer(verdict)],
        Rule::Cases { cases, otherwise } => {
            let mut code: Vec<Instruction> = cases.iter().flat_map(case).collect();
            code.push(answer(otherwise));
            code
        }
    }
}

/// Each test that fails jumps behind the case; all that hold fall through to its verdict. Built from
/// its end, so that each test knows how far that is.
fn case(case: &Case) -> Vec<Instruction> {
    let mut code = vec![answer(case.then)];
    for Test { argument, mask, equals } in case.when.iter().rev() {
        // A case has a handful of tests; a longer one would not pass the tests of this module.
        let behind = u8::try_from(code.len()).unwrap_or(u8::MAX);
        code.insert(
            0,
            Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: behind, value: *equals },
        );
        if *mask != u32::MAX {
            code.insert(0, Instruction { code: AND, if_true: 0, if_false: 0, value: *mask });
        }
        // The kernel is little-endian on every architecture above: the lower half comes first.
        code.insert(0, load(FIRST_ARGUMENT + 8 * u32::from(*argument)));
    }
    code
}

const fn at_least(value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: JUMP_IF_AT_LEAST, if_true, if_false, value }
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD_WORD, if_true: 0, if_false: 0, value: offset }
}

/// Jumps over `count` instructions; the kernel checks that it stays within the program.
fn jump(count: usize) -> Instruction {
    let value = u32::try_from(count).unwrap_or(u32::MAX);
    Instruction { code: JUMP, if_true: 0, if_false: 0, value }
}

const fn answer(verdict: Verdict) -> Instruction {
    let value = match verdict {
        Verdict::Allow => 0x7fff_0000,
        Verdict::Errno(number) => 0x0005_0000 | number as u32,
        Verdict::Kill => 0x8000_0000,
    };
    Instruction { code: RETURN, if_true: 0, if_false: 0, value }
}

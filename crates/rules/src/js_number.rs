//! Prints a number the way JavaScript does, and takes the whole of one.
//!
//! The config is JavaScript's data: container arguments and the config fingerprint must show `1`
//! for `1.0`, `1e+21` for a large number and `0.30000000000000004` for what it really is. Takes an
//! `f64`, gives text; never rounds.

/// Exponent form starts here; below, all digits are written out.
const FIRST_LARGE_EXPONENT: i32 = 21;
/// The smallest decimal exponent that is still written out.
const SMALLEST_PLAIN_EXPONENT: i32 = -6;

/// The shortest text that reads back as `number`. Both zeros are `0`.
pub fn format(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    // Rust finds the shortest digits too; it only lays them out differently.
    let scientific = format!("{:e}", number.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = digits.replace('.', "");
    // Always in range: the exponent of an f64 has at most three digits.
    let exponent: i32 = exponent.parse().unwrap_or_default();
    format!("{sign}{}", lay_out(&digits, exponent))
}

/// The whole number at or below `number`, in a type that can hold it; by way of its digits, which loses nothing.
pub fn whole<T: std::str::FromStr>(number: f64) -> Option<T> {
    format!("{:.0}", number.floor()).parse().ok()
}

/// Places the point. `exponent` is the one of the first digit: `("15", 0)` is 1.5.
fn lay_out(digits: &str, exponent: i32) -> String {
    if !(SMALLEST_PLAIN_EXPONENT..FIRST_LARGE_EXPONENT).contains(&exponent) {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
        let point = if rest.is_empty() { "" } else { "." };
        let plus = if exponent < 0 { "" } else { "+" };
        return format!("{first}{point}{rest}e{plus}{exponent}");
    }
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("0.{zeros}{digits}");
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    match digits.split_at_checked(whole) {
        Some((digits, "")) => digits.to_owned(),
        Some((whole, fraction)) => format!("{whole}.{fraction}"),
        None => format!("{digits:0<whole$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_of_a_number_is_below_it_or_there_is_none() {
        assert_eq!((whole::<u64>(30.9), whole::<u64>(0.0)), (Some(30), Some(0)));
        assert_eq!((whole::<u64>(-0.5), whole::<i64>(-0.5)), (None, Some(-1)));
        assert_eq!((whole::<u64>(f64::NAN), whole::<u64>(1e300)), (None, None));
    }

    #[test]
    fn whole_numbers_have_no_point() {
        check(0.0, "0");
        check(-0.0, "0");
        check(1.0, "1");
        check(-5.0, "-5");
        check(1000.0, "1000");
        check(9_007_199_254_740_993.0, "9007199254740992");
    }

    #[test]
    fn fractions_show_their_shortest_digits() {
        check(1.5, "1.5");
        check(0.1 + 0.2, "0.30000000000000004");
        check(-0.25, "-0.25");
        check(123.456, "123.456");
        check(0.05, "0.05");
    }

    #[test]
    fn the_exponent_form_starts_at_ten_to_the_21_and_below_ten_to_the_minus_6() {
        check(1e20, "100000000000000000000");
        check(123_456_789_012_345_680_000.0, "123456789012345680000");
        check(1e21, "1e+21");
        check(-1.5e300, "-1.5e+300");
        check(1e-6, "0.000001");
        check(1.5e-6, "0.0000015");
        check(9.9e-7, "9.9e-7");
        check(1e-7, "1e-7");
        check(f64::MAX, "1.7976931348623157e+308");
        check(5e-324, "5e-324");
    }

    #[test]
    fn what_is_no_number_has_a_name() {
        check(f64::NAN, "NaN");
        check(f64::INFINITY, "Infinity");
        check(f64::NEG_INFINITY, "-Infinity");
    }

    proptest! {
        #[test]
        fn every_number_reads_back_as_itself(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            let read = format(number).parse::<f64>().unwrap();
            // Both zeros print the same, all else keeps every bit.
            prop_assert_eq!((read + 0.0).to_bits(), (number + 0.0).to_bits());
        }
    }

    #[track_caller]
    fn check(number: f64, expected: &str) {
        assert_eq!(format(number), expected);
    }
}

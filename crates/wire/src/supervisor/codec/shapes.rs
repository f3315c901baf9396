//! How messages are written down: a struct or enum as the reader expects it, with the cap of
//! every length beside its field. The binary form follows from that, and so do the samples that
//! tests send back and forth: no message can be added without them.

/// A struct whose fields travel in the order written. A length or count has its cap behind it.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty $([$cap:expr])?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        #[cfg(test)]
        impl $(<$life>)? $crate::supervisor::sample::Sample for $name $(<$life>)? {
            fn sample(
                source: &mut $crate::supervisor::sample::Source,
                _: $crate::supervisor::codec::Cap,
            ) -> Self {
                Self {
                    $($field: $crate::supervisor::sample::Sample::sample(
                        source,
                        $crate::supervisor::codec::cap!($($cap)?),
                    ),)*
                }
            }
        }

        impl<'w, $($life)?> $crate::supervisor::codec::Wire<'w> for $name $(<$life>)?
        where
            $('w: $life)?
        {
            const MIN_BYTES: usize =
                0 $(+ <$type as $crate::supervisor::codec::Wire<'w>>::MIN_BYTES)*;

            fn put(
                &self,
                out: &mut Vec<u8>,
                _: $crate::supervisor::codec::Cap,
            ) -> Result<(), $crate::supervisor::codec::EncodeError> {
                $($crate::supervisor::codec::Wire::put(
                    &self.$field,
                    out,
                    $crate::supervisor::codec::cap!($($cap)?),
                )?;)*
                Ok(())
            }

            fn take(
                input: &mut $crate::supervisor::codec::Reader<'w>,
                _: $crate::supervisor::codec::Cap,
            ) -> Result<Self, $crate::supervisor::codec::DecodeError> {
                Ok(Self {
                    $($field: $crate::supervisor::codec::Wire::take(
                        input,
                        $crate::supervisor::codec::cap!($($cap)?),
                    )?,)*
                })
            }
        }
    };
}

/// An enum whose tags are written down. A tag is never given a second meaning.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(<$life:lifetime>)? {
            $(
                $(#[$variant_meta:meta])*
                $variant:ident
                $(($inner:ty $([$inner_cap:expr])?))?
                $({ $($(#[$field_meta:meta])* $field:ident: $type:ty $([$cap:expr])?,)* })?
                = $tag:literal,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name $(<$life>)? {
            $(
                $(#[$variant_meta])*
                $variant
                $(($inner))?
                $({ $($(#[$field_meta])* $field: $type,)* })?,
            )*
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// The tag byte that stands for this variant.
            pub const fn tag(&self) -> u8 {
                match self {
                    $(Self::$variant { .. } => $tag,)*
                }
            }
        }

        #[cfg(test)]
        impl $(<$life>)? $crate::supervisor::sample::SampleChoice for $name $(<$life>)? {
            const TAGS: &'static [(u8, &'static str)] = &[$(($tag, stringify!($variant)),)*];

            #[allow(unused_variables, reason = "an enum without fields needs no source")]
            fn sample_tag(tag: u8, source: &mut $crate::supervisor::sample::Source) -> Self {
                match tag {
                    $(
                        $tag => Self::$variant
                            $((<$inner as $crate::supervisor::sample::Sample>::sample(
                                source,
                                $crate::supervisor::codec::cap!($($inner_cap)?),
                            )))?
                            $({
                                $($field: $crate::supervisor::sample::Sample::sample(
                                    source,
                                    $crate::supervisor::codec::cap!($($cap)?),
                                ),)*
                            })?,
                    )*
                    other => panic!("no tag {other}"),
                }
            }
        }

        #[cfg(test)]
        impl $(<$life>)? $crate::supervisor::sample::Sample for $name $(<$life>)? {
            fn sample(
                source: &mut $crate::supervisor::sample::Source,
                _: $crate::supervisor::codec::Cap,
            ) -> Self {
                $crate::supervisor::sample::any_choice(source)
            }
        }

        impl<'w, $($life)?> $crate::supervisor::codec::Wire<'w> for $name $(<$life>)?
        where
            $('w: $life)?
        {
            const MIN_BYTES: usize = 1;

            fn put(
                &self,
                out: &mut Vec<u8>,
                _: $crate::supervisor::codec::Cap,
            ) -> Result<(), $crate::supervisor::codec::EncodeError> {
                out.push(self.tag());
                match self {
                    $(
                        Self::$variant
                        $(($crate::supervisor::codec::bind!(inner, $inner)))?
                        $({ $($field,)* })?
                        => {
                            $(
                                <$inner as $crate::supervisor::codec::Wire<'w>>::put(
                                    inner,
                                    out,
                                    $crate::supervisor::codec::cap!($($inner_cap)?),
                                )?;
                            )?
                            $($(
                                $crate::supervisor::codec::Wire::put(
                                    $field,
                                    out,
                                    $crate::supervisor::codec::cap!($($cap)?),
                                )?;
                            )*)?
                        }
                    )*
                }
                Ok(())
            }

            fn take(
                input: &mut $crate::supervisor::codec::Reader<'w>,
                _: $crate::supervisor::codec::Cap,
            ) -> Result<Self, $crate::supervisor::codec::DecodeError> {
                match input.tag()? {
                    $(
                        $tag => Ok(Self::$variant
                            $((<$inner as $crate::supervisor::codec::Wire<'w>>::take(
                                input,
                                $crate::supervisor::codec::cap!($($inner_cap)?),
                            )?))?
                            $({
                                $($field: $crate::supervisor::codec::Wire::take(
                                    input,
                                    $crate::supervisor::codec::cap!($($cap)?),
                                )?,)*
                            })?
                        ),
                    )*
                    other => Err($crate::supervisor::codec::DecodeError::UnknownTag(other)),
                }
            }
        }
    };
}

/// Names what stands in a variant; the type only says that something does.
macro_rules! bind {
    ($name:ident, $type:ty) => {
        $name
    };
}

macro_rules! cap {
    () => {
        $crate::supervisor::codec::Cap::NONE
    };
    ($cap:expr) => {
        $cap
    };
}

pub(crate) use {bind, cap, choice, record};

//! Sections of machine files: a row says once what a key takes, what is made of it, and what it means.

pub(super) use super::key::{Key, MILLISECOND_PS, STEP_PS};
pub(super) use super::resolver::Resolver;
pub(super) use super::tree::Table;
pub(super) use super::variant::Variant;
pub(super) use super::words::Words;

/// Declares a section from its rows, each `name "key" kind(limits) or "default" as function, "meaning";`.
///
/// Without a default, a value is required. The function, if there is one, makes of the value what is kept. In the first form
/// the rows are the fields of a struct, and the meanings its documentation; in the second they are variables of a function,
/// each an option that is none if the value is broken, so that a row without a use does
/// not compile. `const NAME: Kind = "name",
/// "meaning";` at the end adds the variant whose table this is, for a registry.
macro_rules! section {
    (
        $(#[$attr:meta])*
        $vis:vis struct $Name:ident {
            $(
                $field:ident: $type:ty = $key:literal $kind:ident($($limit:tt)*)
                $(or $default:literal)? $(as $map:expr)?, $meaning:literal;
            )*
        }
        $(const $VARIANT:ident: $Kind:ty = $variant:literal, $variant_meaning:literal;)?
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $Name {
            $(#[doc = $meaning] pub $field: $type,)*
        }

        impl $Name {
            pub(in $crate::spec) const KEYS: &'static [$crate::spec::key::Key] =
                &[$($crate::spec::section::row!($key $kind($($limit)*) [$($default)?] $meaning)),*];

            pub(in $crate::spec) fn resolve(
                table: &$crate::spec::tree::Table,
                resolver: &$crate::spec::resolver::Resolver<'_>,
            ) -> Option<Self> {
                let _ = resolver;
                $(
                    let $field = $crate::spec::section::read!($kind($($limit)*) table $key resolver);
                    $(let $field = $field.map($map);)?
                )*
                Some(Self { $($field: $field?),* })
            }
        }

        $(
            pub(super) const $VARIANT: $crate::spec::section::Variant<$Kind> = $crate::spec::section::Variant {
                key: $crate::spec::key::Key::variant(
                    $variant,
                    $Name::KEYS,
                    $variant_meaning,
                ),
                resolve: |table, resolver| {
                    $Name::resolve(table, resolver).map(<$Kind>::from)
                },
            };
        )?
    };
    (
        $(#[$attr:meta])*
        $vis:vis fn $name:ident($table:ident, $resolver:ident $(, $arg:ident: $arg_type:ty)*) -> $type:ty;
        $keys_vis:vis const $KEYS:ident {
            $(
                $field:ident = $key:literal $kind:ident($($limit:tt)*)
                $(or $default:literal)? $(as $map:expr)?, $meaning:literal;
            )*
        }
        $body:block
        $(const $VARIANT:ident: $Kind:ty = $variant:literal, $variant_meaning:literal;)?
    ) => {
        $keys_vis const $KEYS: &[$crate::spec::key::Key] =
            &[$($crate::spec::section::row!($key $kind($($limit)*) [$($default)?] $meaning)),*];

        $(#[$attr])*
        #[deny(unused_variables)]
        $vis fn $name(
            $table: &$crate::spec::tree::Table,
            $resolver: &mut $crate::spec::resolver::Resolver<'_>
            $(, $arg: $arg_type)*
        ) -> Option<$type> {
            let _ = &*$resolver;
            $(
                let $field = $crate::spec::section::read!($kind($($limit)*) $table $key $resolver);
                $(let $field = $field.map($map);)?
            )*
            $body
        }

        $(
            pub(super) const $VARIANT: $crate::spec::section::Variant<$Kind> = $crate::spec::section::Variant {
                key: $crate::spec::key::Key::variant($variant, $KEYS, $variant_meaning),
                resolve: |table, resolver| $name(table, resolver).map(<$Kind>::from),
            };
        )?
    };
}

/// A row's key.
macro_rules! row {
    ($key:literal group($section:ty) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Part(<$section>::KEYS), Always, $meaning)
    };
    ($key:literal fixed($value:expr) [] $meaning:literal) => { $crate::spec::section::row!(@ $key Part(&[]), Always, $meaning) };
    ($key:literal part($section:ty) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Table(<$section>::KEYS), Optional, $meaning)
    };
    ($key:literal within($section:ty) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Table(<$section>::KEYS), Always, $meaning)
    };
    ($key:literal always($keys:expr) [] $meaning:literal) => { $crate::spec::section::row!(@ $key Table($keys), Always, $meaning) };
    ($key:literal optional($keys:expr) [] $meaning:literal) => { $crate::spec::section::row!(@ $key Table($keys), Optional, $meaning) };
    ($key:literal one_of($common:expr, $variants:expr) [$default:literal] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Variants { common: $common, variants: $variants, default: Some($default) }, Always, $meaning)
    };
    ($key:literal any_of($common:expr, $variants:expr) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Variants { common: $common, variants: $variants, default: None }, Optional, $meaning)
    };
    ($key:literal levels($count:expr, $noun:literal, $each:expr) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Named { names: $crate::spec::key::Names::Levels($count), noun: $noun, each: $each }, Optional, $meaning)
    };
    ($key:literal maybe_line($max_chars:expr) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Value($crate::spec::key::Kind::Line { max_chars: $max_chars }), Optional, $meaning)
    };
    ($key:literal maybe_bytes($min:expr, $max:expr) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Value($crate::spec::key::Kind::Bytes { min: $min, max: $max }), Optional, $meaning)
    };
    ($key:literal maybe_time($max_ps:expr) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Value($crate::spec::key::Kind::Time { max_ps: $max_ps }), Optional, $meaning)
    };
    ($key:literal $kind:ident($($limit:tt)*) [] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Value($crate::spec::section::kind!($kind($($limit)*))), Required, $meaning)
    };
    ($key:literal $kind:ident($($limit:tt)*) [$default:literal] $meaning:literal) => {
        $crate::spec::section::row!(@ $key Value($crate::spec::section::kind!($kind($($limit)*))), Default($default), $meaning)
    };
    (@ $key:literal $shape:ident $inner:tt, $presence:ident $(($default:literal))?, $meaning:literal) => {
        $crate::spec::key::Key {
            name: $key,
            shape: $crate::spec::key::Shape::$shape $inner,
            presence: $crate::spec::key::Presence::$presence $(($default))?,
            meaning: $meaning,
        }
    };
}

/// A row's kind of value.
macro_rules! kind {
    (integer($min:expr, $max:expr)) => {
        $crate::spec::key::Kind::Integer { min: $min, max: $max }
    };
    (long($min:expr, $max:expr)) => {
        $crate::spec::key::Kind::Integer { min: $min, max: $max }
    };
    (bytes($min:expr, $max:expr)) => {
        $crate::spec::key::Kind::Bytes { min: $min, max: $max }
    };
    (time($max_ps:expr)) => {
        $crate::spec::key::Kind::Time { max_ps: $max_ps }
    };
    (frequency($min:expr, $max:expr)) => {
        $crate::spec::key::Kind::Frequency { min_hz: $min, max_hz: $max }
    };
    (ways($max:expr)) => {
        $crate::spec::key::Kind::Ways { max: $max }
    };
    (integers($max:expr, $max_count:expr)) => {
        $crate::spec::key::Kind::Integers { max: $max, max_count: $max_count }
    };
    (sizes($min:expr, $max:expr, $max_count:expr)) => {
        $crate::spec::key::Kind::Sizes { min: $min, max: $max, max_count: $max_count }
    };
    (word($words:expr)) => {
        $crate::spec::key::Kind::Word($words)
    };
    (words($words:expr)) => {
        $crate::spec::key::Kind::Words($words)
    };
    (name()) => {
        $crate::spec::key::Kind::Name
    };
    (line($max_chars:expr)) => {
        $crate::spec::key::Kind::Line { max_chars: $max_chars }
    };
}

/// A row's value, read from its table.
macro_rules! read {
    (maybe_bytes($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        Some($table.bytes($key))
    };
    (maybe_time($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        Some($resolver.time($table, $key))
    };
    (time($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $resolver.time($table, $key)
    };
    (ways($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.leaf($key).map($crate::spec::tree::Leaf::count)
    };
    (integers($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.leaf($key)
    };
    (word($words:expr) $table:ident $key:literal $resolver:ident) => {
        ($words).value($table, $key)
    };
    (words($words:expr) $table:ident $key:literal $resolver:ident) => {
        ($words).each($table, $key)
    };
    (name() $table:ident $key:literal $resolver:ident) => {
        $table.text($key)
    };
    (line($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.text($key)
    };
    (maybe_line($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.text($key)
    };
    (group($section:ty) $table:ident $key:literal $resolver:ident) => {
        <$section>::resolve($table, $resolver)
    };
    (part($section:ty) $table:ident $key:literal $resolver:ident) => {
        match $table.section($key) {
            Some(Some(own)) => <$section>::resolve(own, $resolver).map(Some),
            other => other.map(|_| None),
        }
    };
    (within($section:ty) $table:ident $key:literal $resolver:ident) => {
        $table.table($key).and_then(|own| <$section>::resolve(own, $resolver))
    };
    (fixed($value:expr) $table:ident $key:literal $resolver:ident) => {
        Some($value)
    };
    (always($keys:expr) $table:ident $key:literal $resolver:ident) => {
        $table.table($key)
    };
    (optional($keys:expr) $table:ident $key:literal $resolver:ident) => {
        $table.section($key)
    };
    (one_of($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.table($key)
    };
    (any_of($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.section($key)
    };
    (levels($count:expr, $noun:literal, $each:expr) $table:ident $key:literal $resolver:ident) => {
        $resolver.levels($table, $key, $noun)
    };
    ($kind:ident($($limit:tt)*) $table:ident $key:literal $resolver:ident) => {
        $table.$kind($key)
    };
}

pub(super) use {kind, read, row, section};

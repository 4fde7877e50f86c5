//! Copy and MMA instructions, Volta to Hopper, as table rows with thread-value layouts.

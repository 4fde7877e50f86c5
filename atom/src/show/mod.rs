//! Atoms as pictures, and in the words of CuTe's `print`.

mod draw;
mod print;

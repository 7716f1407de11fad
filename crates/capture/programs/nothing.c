/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * nothing: what starting and ending a program costs. */
int main(void)
{
   return 0;
}

// Stands for a program that measures a kernel: whatever the answer is, it finds it wrong.
// SPDX-License-Identifier: Apache-2.0
#include "measure.cuh"

#include LEARNERS_FILE

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    lab::wrong(argv[1], "wrong, as ever");
}

/*
 * distance.c - how far two words are apart. See distance.h.
 */
#include "policy/distance.h"

#include <string.h>

#include "base/ascii.h"

static unsigned int least(unsigned int a, unsigned int b)
{
    return a < b ? a : b;
}

static char plain(char byte)
{
    return byte == '-' ? '_' : ascii_lower(byte);
}

unsigned int word_distance(const char *a, const char *b)
{
    unsigned int rows[3][DISTANCE_WORD_MAX + 1];
    const size_t height = strlen(a), width = strlen(b);
    if (height > DISTANCE_WORD_MAX || width > DISTANCE_WORD_MAX)
        return DISTANCE_WORD_MAX;
    for (unsigned int column = 0; column <= width; column++)
        rows[0][column] = column;
    for (unsigned int row = 1; row <= height; row++) {
        unsigned int *now = rows[row % 3];
        const unsigned int *before = rows[(row + 2) % 3], *earlier = rows[(row + 1) % 3];
        now[0] = row;
        for (unsigned int column = 1; column <= width; column++) {
            const char of_a = plain(a[row - 1]), of_b = plain(b[column - 1]);
            now[column] = least(least(before[column], now[column - 1]) + 1, before[column - 1] + (of_a != of_b));
            if (row > 1 && column > 1 && of_a == plain(b[column - 2]) && plain(a[row - 2]) == of_b)
                now[column] = least(now[column], earlier[column - 2] + 1);
        }
    }
    return rows[height % 3][width];
}

static bool is_near(const char *word, unsigned int distance)
{
    const size_t length = strlen(word);
    return distance <= (length < 6 ? 1 : length / 3);
}

bool word_is_near(const char *word, const char *name)
{
    return is_near(word, word_distance(word, name));
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    const unsigned int distance = word_distance(nearest->word, name);
    if (distance >= nearest->distance)
        return;
    nearest->distance = distance;
    nearest->name = name;
}

const char *nearest_meant(const struct nearest *nearest)
{
    return nearest->name != NULL && is_near(nearest->word, nearest->distance) ? nearest->name : NULL;
}

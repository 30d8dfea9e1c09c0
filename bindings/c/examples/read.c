/* Reads a file by a plan, of a line for each read: offset+length, several of them with commas between them, which are read
 * together. Writes what it read to standard output at the end, and the time of each read in nanoseconds to another file. */
#include <namewire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTS_MAX 64

/* What is read together. */
struct parts {
	struct namewire_part parts[PARTS_MAX];
	size_t count;
};

static int fail(const struct namewire_error *error)
{
	fprintf(stderr, "%s\n", error->text);
	return 1;
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	struct namewire_options options = {0};
	struct namewire_error error;
	char line[8192];
	struct parts *reads = NULL;
	size_t count = 0;

	if (argc != 5)
		return 2;
	options.size = sizeof options;
	options.verify = argv[2];
	struct namewire_context *context = namewire_connect(&options, &error);
	if (!context)
		return fail(&error);
	struct namewire_file *file = namewire_open(context, argv[1], &error);
	if (!file)
		return fail(&error);
	FILE *plan = fopen(argv[3], "r"), *times = fopen(argv[4], "w");
	if (!plan || !times) {
		perror(plan ? argv[4] : argv[3]);
		return 1;
	}
	while (fgets(line, sizeof line, plan)) {
		reads = realloc(reads, (count + 1) * sizeof *reads);
		if (!reads) {
			perror(argv[3]);
			return 1;
		}
		struct parts *one = &reads[count++];
		one->count = 0;
		for (char *part = strtok(line, ",\n"); part && one->count < PARTS_MAX; part = strtok(NULL, ",\n")) {
			char *rest;
			unsigned long long offset = strtoull(part, &rest, 10);
			size_t length = *rest == '+' ? strtoul(rest + 1, NULL, 10) : 0;
			void *buffer = malloc(length ? length : 1);

			if (!buffer) {
				perror(argv[3]);
				return 1;
			}
			one->parts[one->count++] = (struct namewire_part){offset, buffer, length, 0};
		}
	}
	/* Nothing is written until the last read: read-ahead would go on meanwhile, outside of the times. */
	for (size_t i = 0; i < count; i++) {
		struct namewire_part *parts = reads[i].parts;
		long long start = now_ns();
		ssize_t read = reads[i].count == 1
			? namewire_pread(file, parts[0].buffer, parts[0].length, parts[0].offset, &error)
			: namewire_preadv(file, parts, reads[i].count, &error);
		long long end = now_ns();
		if (read < 0)
			return fail(&error);
		if (reads[i].count == 1)
			parts[0].read = (size_t)read;
		fprintf(times, "%lld\n", end - start);
	}
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < reads[i].count; j++) {
			fwrite(reads[i].parts[j].buffer, 1, reads[i].parts[j].read, stdout);
			free(reads[i].parts[j].buffer);
		}
	}
	free(reads);
	fclose(plan);
	namewire_close(file);
	namewire_disconnect(context);
	return fclose(times) == 0 ? 0 : 1;
}

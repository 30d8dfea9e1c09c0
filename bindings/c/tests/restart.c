/* Reads a file with several threads, with the default action of SIGPIPE, while its forwarder ends and starts again. The argument is
 * its name; standard output reports the first read, the first failure, and the first read after it. */
#include <namewire.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define THREADS 4
#define SECONDS_MAX 60

static struct namewire_file *file;
static unsigned char expected[300000];
static atomic_int failures, wrong, reads_after;

static void *read_until_it_is_back(void *argument)
{
	unsigned int seed = (unsigned int)(size_t)argument;
	unsigned char buffer[5000];
	time_t end = time(NULL) + SECONDS_MAX;

	while (time(NULL) < end && atomic_load(&reads_after) < 1000) {
		int failed_before = atomic_load(&failures);

		seed = seed * 1103515245 + 12345;
		uint64_t offset = seed % (sizeof expected - sizeof buffer);
		if (namewire_pread(file, buffer, sizeof buffer, offset, NULL) != (ssize_t)sizeof buffer) {
			if (atomic_fetch_add(&failures, 1) == 0)
				puts("failed");
		} else {
			if (memcmp(buffer, expected + offset, sizeof buffer) != 0)
				atomic_store(&wrong, 1);
			if (failed_before && atomic_fetch_add(&reads_after, 1) == 0)
				puts("read again");
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct namewire_options options = {0};
	struct namewire_error error;
	pthread_t threads[THREADS];

	if (argc != 2 || signal(SIGPIPE, SIG_DFL) == SIG_ERR)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	options.size = sizeof options;
	options.timeout_ms = 1000;
	options.lifetime_ms = 300;
	/* Every read is a request. */
	options.cache_bytes = 1;
	options.read_ahead_bytes = 1;
	struct namewire_context *context = namewire_connect(&options, &error);
	file = context ? namewire_open(context, argv[1], &error) : NULL;
	if (!file || namewire_pread(file, expected, sizeof expected, 0, &error) != (ssize_t)sizeof expected) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	for (size_t i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, read_until_it_is_back, (void *)i) != 0)
			return 2;
	}
	puts("reading");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	namewire_close(file);
	namewire_disconnect(context);
	return wrong || reads_after == 0;
}

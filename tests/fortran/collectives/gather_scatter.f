! ranks: 1 2 4
! Scatter numbers, work on them, gather the results.
      PROGRAM GATSCA
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER MAXP, EACH
      PARAMETER (MAXP=16, EACH=3)
      INTEGER IERR, ME, NP, I
      INTEGER TASKS(EACH*MAXP), OWN(EACH), DONE(EACH*MAXP)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 10 I = 1, EACH*NP
         TASKS(I) = 0
         DONE(I) = 0
         IF (ME .EQ. 0) TASKS(I) = 10*I
   10 CONTINUE
      CALL MPI_SCATTER(TASKS, EACH, MPI_INTEGER, OWN, EACH, MPI_INTEGER,
     &                 0, MPI_COMM_WORLD, IERR)
      DO 20 I = 1, EACH
         IF (OWN(I) .NE. 10*(ME*EACH + I)) STOP 1
         OWN(I) = OWN(I) + 1
   20 CONTINUE
      CALL MPI_GATHER(OWN, EACH, MPI_INTEGER, DONE, EACH, MPI_INTEGER,
     &                NP-1, MPI_COMM_WORLD, IERR)
      DO 30 I = 1, EACH*NP
         IF (ME .EQ. NP-1) THEN
            IF (DONE(I) .NE. 10*I + 1) STOP 2
         ELSE
            IF (DONE(I) .NE. 0) STOP 3
         END IF
   30 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
